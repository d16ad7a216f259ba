-- fence: run a leader's script only in its own term, on the Redis of that term.
--
-- USES   lease_key token expected_server
-- RETURNS  STALE  |  SERVER
--
-- Lease and data are in one primary, and scripts run alone: no other leader can write before the effects.
-- include lib/meta.lua
if redis.call('GET', lease_key) ~= token then
  return {'STALE'}
end
if server ~= expected_server then
  return {'SERVER'}
end
