-- lanes: the ZSETs of schedules that wait for their time, and of those that wait for room in their queue; and what
-- stands in paused and quarantine of the others.
--
-- USES   due_high_key due_normal_key due_low_key, and of park now_ms
-- GIVES  lanes, lane_keys, lane_of(word), key_of(word); queue_of(word), nil of a lane's word and of what is no word
--        park(key, id, lane, due_ms, since_ms, note): write the value of a schedule in the hash at *key*; since_ms: nil
--        for now. PARKED, the pattern of such a value: "<lane> <due ms> <since ms> <note>"
--
-- A word names one of them: "<lane>", or "<lane>:<queue>" for what was due and was throttled because the queue
-- had no room by its limit (lib/room.lua). Which of these there are `meta.throttled` says, by spaces.
local PARKED = '^(%a+) (%S+) (%d+) ?(.*)$'
local lanes = {'high', 'normal', 'low'}
local lane_keys = {high = due_high_key, normal = due_normal_key, low = due_low_key}

local function lane_of(word)
  return string.match(word, '^%a+')
end

local function queue_of(word)
  local lane, queue = string.match(word, '^(%a+):(.+)$')
  return lane_keys[lane or ''] and queue
end

local function key_of(word)
  return lane_keys[word] or lane_keys[lane_of(word)] .. string.match(word, ':.*$')
end

local function park(key, id, lane, due_ms, since_ms, note)
  since_ms = since_ms or string.format('%.0f', now_ms)
  redis.call('HSET', key, id, lane .. ' ' .. due_ms .. ' ' .. since_ms .. ' ' .. note)
end
