-- find: find the places of schedules. Only this file knows lanes, paused and quarantine.
--
-- USES   paused_key quarantine_key recurring_key
-- GIVES  find(ids)  list of {place, lane, key, due_ms, since_ms, note, until_ms, recurring, places} or false
--
-- place is 'due', 'paused', 'quarantine', or 'ended' for a recurring schedule without a place. A schedule that is due
-- is in a lane or throttled (lib/lanes.lua): `key` is the key of that ZSET. lanes and lane_keys have the words of both
-- kinds.
-- If another program wrote a value into paused or quarantine that does not match PARKED, find returns that schedule as
-- quarantined, without a lane, due '-'. `key` is the key of the hash with that value. `places`: words of all its
-- places, by spaces, as another program may have put it into several.
-- `until_ms`: of a pause that ends by itself (pause.lua).
-- include lib/meta.lua
-- include lib/lanes.lua
local PARKED = '^(%a+) (%S+) (%d+) ?(.*)$'  -- as park writes it
local BROKEN = 'its value in paused or quarantine is broken'

for word in string.gmatch(throttled_words, '%S+') do
  if queue_of(word) then
    lanes[#lanes + 1] = word
    lane_keys[word] = key_of(word)
  end
end

-- Return the place of a schedule by its *value* in the hash *key* of *place*. Its due time is a score of a ZSET; a lane
-- may have had one that is not a whole number.
local function standing(place, key, value)
  local lane, due_ms, since_ms, note = string.match(value, PARKED)
  local score = string.find(due_ms or '', '^[%dinfe.+-]+$') and tonumber(due_ms)
  local is_due = score and score == score or place == 'quarantine' and due_ms == '-'
  if not is_due or not lane_keys[lane] then
    return {place = 'quarantine', key = key, due_ms = '-', since_ms = '0', note = BROKEN}
  end
  return {place = place, lane = lane, key = key, due_ms = due_ms, since_ms = since_ms, note = note,
    until_ms = string.match(note, '^[^\31]*\31[^\31]*\31(%d+)$')}
end

function find(ids)
  -- Most of the keys are missing most of the time, and EXISTS is quicker than a reply of nils.
  local function exists(key)
    return redis.call('EXISTS', key) == 1
  end

  local found = {}
  for i = 1, #ids do
    found[i] = false
  end
  local function note(i, word, at)
    at.places = found[i] and found[i].places .. ' ' .. word or word
    found[i] = at
  end
  for _, word in ipairs(lanes) do
    local scores = exists(lane_keys[word]) and redis.call('ZMSCORE', lane_keys[word], unpack(ids)) or {}
    for i = 1, #scores do
      if scores[i] then
        note(i, word, {place = 'due', lane = lane_of(word), key = lane_keys[word], due_ms = scores[i]})
      end
    end
  end
  for place, key in pairs({paused = paused_key, quarantine = quarantine_key}) do
    local values = exists(key) and redis.call('HMGET', key, unpack(ids)) or {}
    for i = 1, #values do
      if values[i] then
        note(i, place, standing(place, key, values[i]))
      end
    end
  end
  local recurring = exists(recurring_key) and redis.call('SMISMEMBER', recurring_key, unpack(ids)) or {}
  for i = 1, #recurring do
    if recurring[i] == 1 then
      found[i] = found[i] or {place = 'ended'}
      found[i].recurring = true
    end
  end
  return found
end
