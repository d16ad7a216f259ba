-- seen: continue only if the log ends where the caller read it (rule: COMPARE_AND_SET).
--
-- USES   log_key seen_entry seen_t now_ms
-- RETURNS  AGAIN, now ms
--
-- One unread entry can make the caller's decision wrong: it has to compare again from there.
local last = redis.call('XREVRANGE', log_key, '+', '-', 'COUNT', 1)[1]
if (last and last[1] or '-') ~= seen_entry or (last and last[2][4] or '0') ~= seen_t then
  return {'AGAIN', now_ms}
end
