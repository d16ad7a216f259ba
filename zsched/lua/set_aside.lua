-- set_aside: take due schedules out of their lanes whose zone the leader's machine lacks, so that they block no others.
--
-- KEYS   lease meta log @lanes
-- ARGV   schedule_prefix              as in keys.py
--        @term
--        ...   per schedule: id, word of lib/lanes, due ms, progress, zone
-- RETURNS  OK, now ms, number set aside  |  STALE  |  SERVER
-- LOGS   nothing
--
-- They wait like schedules of a queue without room, "-<zone>" in the place of the queue's name (lib/lanes.lua), until
-- the leader is a daemon of a machine that has the zone. No name of a queue begins with "-"
-- (core/options/arguments.py).
-- include lib/fence.lua
-- include lib/lanes.lua

local members, throttled = {}, ' ' .. throttled_words .. ' '
for i = ROWS, #ARGV, 5 do
  local id, word, due_ms, seen_progress, zone = unpack(ARGV, i, i + 4)
  local key, to = key_of(word), lane_of(word) .. ':-' .. zone
  redis.call('ZCARD', key_of(to))  -- see lib/meta.lua
  if redis.call('ZSCORE', key, id) == due_ms
    and redis.pcall('HGET', schedule_prefix .. id, 'progress') == seen_progress then
    members[#members + 1] = {id = id, key = key, to = to, due_ms = due_ms}
    throttled = throttled .. (string.find(throttled, ' ' .. to .. ' ', 1, true) and '' or to .. ' ')
  end
end
if #members > 0 then
  redis.call('HSET', meta_key, 'throttled', string.match(throttled, '^ *(.-) $'))
end
for _, one in ipairs(members) do
  redis.call('ZREM', one.key, one.id)
  redis.call('ZADD', key_of(one.to), one.due_ms, one.id)
end
return {'OK', now_ms, #members}
