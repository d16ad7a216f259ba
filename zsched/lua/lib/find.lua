-- find: where schedules are. The only place that knows lanes, paused and quarantine.
--
-- USES   aside_words due_high_key due_normal_key due_low_key paused_key quarantine_key recurring_key
-- GIVES  lanes, lane_keys, find(ids) -> list of {place, lane, key, due_ms, recurring, note} or false
--
-- place is 'due', 'paused', 'quarantine', or 'ended' for a recurring schedule that has no place left. What is due
-- stands in a lane or aside (lib/lanes.lua): `key` is that of the ZSET; lanes and lane_keys have the words of them all.
-- A paused value is "<lane> <due ms> <since ms> <note>", a quarantined one "<lane> <due ms> <since ms> <reason>".
-- include lib/lanes.lua
for word in string.gmatch(aside_words, '%S+') do
  if lane_keys[lane_of(word) or ''] then
    lanes[#lanes + 1] = word
    lane_keys[word] = key_of(word)
  end
end

local function find(ids)
  local found = {}
  local recurring = redis.call('SMISMEMBER', recurring_key, unpack(ids))
  for i = 1, #ids do
    found[i] = false
  end
  for _, word in ipairs(lanes) do
    local scores = redis.call('ZMSCORE', lane_keys[word], unpack(ids))
    for i = 1, #ids do
      if scores[i] then
        found[i] = {place = 'due', lane = lane_of(word), key = lane_keys[word], due_ms = scores[i]}
      end
    end
  end
  for place, key in pairs({paused = paused_key, quarantine = quarantine_key}) do
    local values = redis.call('HMGET', key, unpack(ids))
    for i = 1, #ids do
      if values[i] then
        local lane, due_ms, since_ms, note = string.match(values[i], '^(%S+) (%S+) (%S+) ?(.*)$')
        found[i] = {place = place, lane = lane, due_ms = due_ms, since_ms = since_ms, note = note}
      end
    end
  end
  for i = 1, #ids do
    if recurring[i] == 1 then
      found[i] = found[i] or {place = 'ended'}
      found[i].recurring = true
    end
  end
  return found
end
