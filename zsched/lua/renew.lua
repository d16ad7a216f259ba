-- renew: make the lease last its full length again.
--
-- KEYS   lease meta log
-- ARGV   @term
--        lease_ms
-- RETURNS  OK, now ms  |  STALE  |  SERVER
-- LOGS   nothing
-- include lib/fence.lua

redis.call('PEXPIRE', lease_key, lease_ms)
return {'OK', now_ms}
