-- limits: set the limits of queues, until the next call.
--
-- KEYS   lease meta log limits
-- ARGV   @term
--        ...   per limit: queue, runs per second
-- RETURNS  OK, now ms  |  STALE  |  SERVER
-- LOGS   nothing: limits are the leader's settings, and no state of a schedule
--
-- A limit that stays keeps its count. A limit that is removed while schedules are throttled for it becomes "- 0": fire
-- then pushes them as they are due (lib/capacity.lua).
-- include lib/fence.lua
-- include lib/texts.lua

local rows, wanted = by_name(redis.call('HGETALL', limits_key)), {}
for queue in string.gmatch(throttled_words, '%a+:(%S+)') do
  wanted[queue] = '- 0'
end
for i = ROWS, #ARGV, 2 do
  local queue, per_second = ARGV[i], ARGV[i + 1]
  wanted[queue] = per_second .. ' ' .. (string.match(rows[queue] or '', ' (%d+)$') or '0')
end
for queue, row in pairs(wanted) do
  redis.call('HSET', limits_key, queue, row)
end
for queue in pairs(rows) do
  if not wanted[queue] then
    redis.call('HDEL', limits_key, queue)
  end
end
return {'OK', now_ms}
