-- fence: run a leader's script only in its own term, on the Redis of that term.
--
-- USES   lease_key token expected_server
-- GIVES  what lib/meta.lua gives
--
-- Lease and data live in one primary and scripts run alone, so no other leader's write can come
-- between this check and the effects. Key expiry is frozen while a script runs.
-- include lib/meta.lua
if redis.call('GET', lease_key) ~= token then
  return {'STALE'}
end
if server ~= expected_server then
  return {'SERVER'}
end
