-- told: note how far a teller of the notifier has come. That it can be noted also proves that this daemon leads, and
-- that Redis takes writes.
--
-- KEYS   lease meta told
-- ARGV   @term
--        teller          its name
--        seen            its text before, or ''
--        text            its new text
-- RETURNS  OK, noted  |  OK, AGAIN (the text has changed)  |  STALE  |  SERVER
-- LOGS   nothing
-- include lib/fence.lua

if (redis.call('HGET', told_key, teller) or '') ~= seen then
  return {'OK', 'AGAIN'}
end
redis.call('HSET', told_key, teller, text)
return {'OK', 'noted'}
