-- whole: run a script only where all keys of the slot are.
--
-- USES   meta_key
-- GIVES  nothing, or the error TRYAGAIN: the slot of a Redis Cluster is being moved, key by key, to another node
--
-- A script's reading or writing of a key that is not there fails meanwhile, in the middle of what it does. So it asks
-- for a key that never exists, before anything else. Scripts run alone: the answer holds until the end of this one.
--
-- On a Cluster the prefix of RQ's keys has a hash tag (demand_one_slot in storage/cluster.py). A script with another
-- prefix does not ask, since it takes 2 microseconds.
if string.find('{rq}', '{', 1, true) then
  local absent = redis.pcall('HMGET', meta_key .. ':never', 'x')
  if absent.err and string.find(absent.err, 'non local key', 1, true) then
    return redis.error_reply('TRYAGAIN a slot is being moved')
  end
end
