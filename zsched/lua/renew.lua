-- renew: make the lease last its full length again.
--
-- KEYS   lease meta log
-- ARGV   token expected_server        this term's
--        lease_ms
-- RETURNS  OK, now ms  |  STALE  |  SERVER
-- LOGS   nothing
local lease_key, meta_key, log_key = unpack(KEYS)
local token, expected_server, lease_ms = unpack(ARGV)
-- include lib/meta.lua
-- include lib/fence.lua

redis.call('PEXPIRE', lease_key, lease_ms)
return {'OK', now_ms}
