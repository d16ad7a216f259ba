-- same_history: continue only if the log has the last entry of the caller's archive.
--
-- USES   log_key seen_entry seen_t
-- RETURNS  LOST
--
-- Else this Redis may never have had the caller's runs, and missing jobs mean nothing.
local seen = redis.call('XRANGE', log_key, seen_entry, seen_entry)[1]
if not seen or seen[2][4] ~= seen_t then
  return {'LOST'}
end
