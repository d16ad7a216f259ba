-- whole: run a script only on a node of a Redis Cluster that has all keys of the slot.
--
-- USES   meta_key
-- RETURNS  the error TRYAGAIN: the slot is being moved, key by key, to another node
--
-- Calls for missing keys fail meanwhile, in the middle of a script. A key that never exists shows it before. Only
-- scripts with a hash tag in the prefix of RQ's keys have this piece: see load in storage/scripts.py.
local absent = redis.pcall('HMGET', meta_key .. ':never', 'x')
if absent.err and string.find(absent.err, 'non local key', 1, true) then
  return redis.error_reply('TRYAGAIN a slot is being moved')
end
