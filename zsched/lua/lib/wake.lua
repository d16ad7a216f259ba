-- wake: wake the daemon, which sleeps until the due time of the present head of a lane.
--
-- USES   wake_key
-- GIVES  wake_if_earlier(lane, due_ms)  before the ZADD
-- include lib/lanes.lua
function wake_if_earlier(lane, due_ms)
  local head = redis.call('ZRANGE', lane_keys[lane], 0, 0, 'WITHSCORES')
  if not head[2] or tonumber(due_ms) < tonumber(head[2]) then
    redis.pcall('PUBLISH', wake_key, due_ms)  -- a user without the channel's right: one idle tick, no harm
  end
end
