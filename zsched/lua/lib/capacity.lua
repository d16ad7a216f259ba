-- capacity: the number of runs that each limited queue accepts now, and the time of its next free place (GCRA).
--
-- USES   meta_key limits_key now_ms throttled_words lacking queue_accepts
-- GIVES  is_limited spend(queue) free_again_ms(queue) write_capacity()
--        capacity  by queue, number of runs; nil for a queue without a limit
--        throttled  queues by words that may have schedules
--        block(queue) blocked  it does not accept runs; set of such queues
--
-- A queue whose key is of a wrong type has no capacity until it is right, nor has "-<zone>" while the zone is lacking.
-- A limit is "<per second> <time in µs>", or "- 0" until the throttled schedules of a removed limit are pushed.
-- include lib/lanes.lua
-- include lib/untrusted.lua
local BURST, WAKE = 1 / 20, 1 / 100  -- of a second's runs: most at once; fewest for a wake-up
local CLOSE = 1e-6  -- of a run: rounding error of doubles
local BLOCKED_MS = 1000  -- until the next look at a blocked queue

local limits = redis.call('HGETALL', limits_key)
capacity, throttled, blocked = {}, {}, {}
local rates, spent = {}, {}
for word in string.gmatch(throttled_words, '%S+') do
  local queue = queue_of(word)
  if queue then
    redis.call('ZCARD', key_of(word))  -- see lib/meta.lua
    throttled[word] = queue
    capacity[queue] = math.huge  -- unless it has a limit
  end
end
is_limited = #limits > 0 or throttled_words ~= ''
for i = 1, #limits, 2 do
  local queue, text, next_us = limits[i], string.match(limits[i + 1], '^(%S+) (%d+)$')
  local per_second = tonumber(text or '')
  capacity[queue] = math.huge
  if per_second and per_second > 0 then
    local now_us, each_us, burst = now_ms * 1000, 1e6 / per_second, math.max(per_second * BURST, 1)
    next_us = math.max(tonumber(next_us), now_us)
    local most_us = now_us + math.ceil(burst * each_us)
    if next_us > most_us then  -- too far ahead: the clock was set back, or the limit was smaller
      next_us, spent[queue] = most_us, 0
    end
    rates[queue] = {text = text, each_us = each_us, burst = burst, next_us = next_us,
      wake = math.max(math.floor(per_second * WAKE), 1)}
    capacity[queue] = math.max(math.floor(burst - (next_us - now_us) / each_us + CLOSE), 0)
  end
end

function block(queue)
  capacity[queue], blocked[queue], is_limited = 0, true, true
end

for zone in string.gmatch(lacking, '%S+') do
  if capacity['-' .. zone] then
    block('-' .. zone)
  end
end
for queue in pairs(capacity) do
  if not queue_accepts(queue) then
    block(queue)
  end
end

function spend(queue)
  if capacity[queue] then
    capacity[queue] = capacity[queue] - 1
    spent[queue] = (spent[queue] or 0) + 1
  end
end

local function next_of(queue)
  local rate = rates[queue]
  return rate.next_us + math.ceil((spent[queue] or 0) * rate.each_us)
end

-- Return the time at which there is capacity for enough runs for a wake-up: a hundred times a second at most.
function free_again_ms(queue)
  if blocked[queue] then
    return now_ms + BLOCKED_MS
  end
  local rate = rates[queue]
  return math.max(math.ceil((next_of(queue) - (rate.burst - rate.wake) * rate.each_us) / 1000), now_ms + 1)
end

-- Write the spent capacity of each limit, and the words that still have throttled schedules.
function write_capacity()
  for queue in pairs(spent) do
    if rates[queue] then
      redis.call('HSET', limits_key, queue, rates[queue].text .. ' ' .. string.format('%.0f', next_of(queue)))
    end
  end
  local words, throttled_queues = {}, {}
  for word, queue in pairs(throttled) do
    words[#words + 1], throttled_queues[queue] = word, true
  end
  table.sort(words)
  local now_throttled = table.concat(words, ' ')
  if now_throttled ~= throttled_words then
    redis.call('HSET', meta_key, 'throttled', now_throttled)
  end
  for queue in pairs(capacity) do
    if not rates[queue] and not throttled_queues[queue] then
      redis.call('HDEL', limits_key, queue)
    end
  end
end
