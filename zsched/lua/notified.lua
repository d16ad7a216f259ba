-- notified: note how far a teller of the notifier has come.
--
-- KEYS   lease meta log notified
-- ARGV   @term
--        teller          its name
--        seen            its text before, or ''
--        text            its new text
-- RETURNS  OK, noted  |  OK, AGAIN (the text has changed)  |  STALE  |  SERVER
-- LOGS   nothing
--
-- That it can be noted also proves that this daemon leads, and that Redis takes writes.
-- include lib/fence.lua

if (redis.call('HGET', notified_key, teller) or '') ~= seen then
  return {'OK', 'AGAIN'}
end
redis.call('HSET', notified_key, teller, text)
return {'OK', 'noted'}
