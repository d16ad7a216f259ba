-- shown: note that the archives show: nothing was lost at the last change of server (rules: WHENEVER_PUT, ALL_SHOW).
--
-- KEYS   lease meta log
-- ARGV   @term
--        doubt           meta.doubt, as the caller read it before it asked the archives
-- RETURNS  OK, now ms  |  STALE  |  SERVER
-- LOGS   nothing
-- include lib/fence.lua

if string.format('%.0f', doubt_ms) == doubt then
  redis.call('HSET', meta_key, 'shown', '1')
end
return {'OK', now_ms}
