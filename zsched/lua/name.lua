-- name: give a data set its name, if it has none.
--
-- KEYS   lease meta log
-- ARGV   @term
--        gen             the name
--        is_new          1: no archive knows a name, and no archive has an entry that this log lacks; else 0
-- RETURNS  OK, names of the data set  |  STALE  |  SERVER
-- LOGS   nothing
--
-- In the first term of a complete log nothing was lost, if no archive has more or has restored anything: the doubt is
-- cleared (rule: NEW).
-- The hold stays.
-- include lib/fence.lua

local first = redis.call('XRANGE', log_key, '-', '+', 'COUNT', 1)[1]
if redis.call('HSETNX', meta_key, 'gen', gen) == 1 and is_new == '1' and epoch == 1
  and redis.call('HEXISTS', meta_key, 'lost') == 0 and first and string.find(first[1], '^%d+%-1$') then
  redis.call('HDEL', meta_key, 'doubt')
end
return {'OK', redis.call('HGET', meta_key, 'gen')}
