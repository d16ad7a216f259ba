-- whole: run a script only on a node that has all keys of the slot.
--
-- USES   meta_key
-- RETURNS  the error TRYAGAIN: the slot of a Redis Cluster is being moved, key by key, to another node
--
-- During the move, a call for a key that the node does not have fails, in the middle of a script. So a script first
-- asks for a key that never exists. Scripts run alone: the reply is valid until the script's end.
--
-- On a Cluster the prefix of RQ's keys has a hash tag (demand_one_slot in storage/cluster.py). A script with another
-- prefix does not ask, since it takes 2 microseconds.
if string.find('{rq}', '{', 1, true) then
  local absent = redis.pcall('HMGET', meta_key .. ':never', 'x')
  if absent.err and string.find(absent.err, 'non local key', 1, true) then
    return redis.error_reply('TRYAGAIN a slot is being moved')
  end
end
