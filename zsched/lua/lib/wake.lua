-- wake: put schedules into a lane, and wake the daemon, which sleeps until the due time of the head of the lanes.
--
-- USES   wake_key
-- GIVES  enter(lane, members)  members: due ms and id of each, as ZADD takes them
-- include lib/lanes.lua
local function due_of_head(key)
  return redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
end

function enter(lane, members)
  local key = lane_keys[lane]
  local due_ms = due_of_head(key)
  redis.call('ZADD', key, unpack(members))
  if not due_ms or redis.call('ZCOUNT', key, '-inf', '(' .. due_ms) > 0 then
    redis.pcall('PUBLISH', wake_key, due_of_head(key))  -- a user without the channel's right: one idle tick, no harm
  end
end
