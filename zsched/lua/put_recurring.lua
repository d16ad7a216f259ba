-- put_recurring: create or replace one recurring schedule.
--
-- KEYS   @schedules wake schedule template op
-- ARGV   @prefixes
--        id lane
--        if_exists       replace | keep | error
--        keep_op_ms      > 0: op holds the reply that long, and a call sent again gets it
--        seen_version    what an update read, '' when this is none
--        trigger         the rule's canonical text
--        digest          of everything that the definition says
--        anchor_ms       the rule's anchor, or '' for TIME
--        next_ms         first nominal time: ms by the caller's plan, or +ms from TIME
--        jitter_ms       how much later than that it is due
--        from_ms until_ms   the plan holds while from_ms <= TIME < until_ms
--        schedule_size   number of field/value texts for the schedule's hash
--        ...             those, then the field/value texts of the template
-- RETURNS  OK, word, now ms, version, due ms or -   |   AGAIN, now ms: plan once more from there
--        words: created updated unchanged kept EXISTS CHANGED WRONGTYPE
-- LOGS   put_recurring: id, due, schedule n, its pairs, template n, its pairs; paused = 1 when it stays so
--
-- The anchor (TIME at the rule's creation, or just before) and the due time stay as long as the trigger's text is
-- the same but for its jitter, so a new payload neither moves nor repeats an occurrence, and new jitter counts from the
-- next one on. A put never resumes. Failures in a row are forgotten when pause_after changes; they are counted, not
-- asked for, so the entry does not have them.
keep_op_ms, schedule_size = tonumber(keep_op_ms), tonumber(schedule_size)
-- include lib/op.lua
-- include lib/place.lua

local first_of_template = ROWS + schedule_size
local MS = '^%-?%d+$'
local IS_OURS = {  -- fields of a schedule's hash that no caller gives
  version = true, trigger = true, digest = true, anchor = true, lane = true, nominal = true, last = true,
  created_at = true, updated_at = true, ended_at = true, failures = true,
}

local at = find({id})[1]
for _, key in ipairs({schedule_key, template_key}) do
  local held = redis.call('TYPE', key).ok
  if held ~= 'hash' and held ~= 'none' then
    return answer({'OK', 'WRONGTYPE', now_ms, version(), '-'})
  end
end
if at and if_exists ~= 'replace' then
  return answer({'OK', if_exists == 'keep' and 'kept' or 'EXISTS', now_ms, version(), at.due_ms or '-'})
end
-- The hash as it is, without malformed numbers and a malformed last run, which another program wrote.
local old, is_sound = {}, true
if at and at.recurring then
  old = redis.call('HMGET', schedule_key, 'version', 'trigger', 'digest', 'anchor', 'nominal', 'last', 'created_at',
    'ended_at', 'pause_after', 'failures')
  for n, form in pairs({[1] = '^%d+%-%d+$', [4] = MS, [5] = MS, [6] = '^[%w_-]+$', [7] = MS, [8] = MS, [10] = MS}) do
    if old[n] and not (string.find(old[n], form) and (form ~= MS or is_ms(old[n]))) then
      old[n], is_sound = false, false
    end
  end
end
local has_ended = at and at.place == 'ended' and old[8] and not old[5]
local function is_due_then()
  return is_ms(at.due_ms) and tonumber(at.due_ms) >= tonumber(old[5])
end
local has_time = has_ended or old[5] and (at.place == 'ended' or is_due_then())  -- that this put may keep

-- Does the hash at *key* hold the texts from *first* to *last*, and else only *others*? Another program may have
-- changed it, and a put repairs that.
local function holds(key, first, last, others)
  local asked, count = {}, 0
  for i = first, last, 2 do
    asked[ARGV[i]] = ARGV[i + 1]
    count = count + 1
  end
  local texts = redis.call('HGETALL', key)
  for i = 1, #texts, 2 do
    if asked[texts[i]] == texts[i + 1] then
      count = count - 1
    elseif asked[texts[i]] or not others[texts[i]] then
      return false
    end
  end
  return count == 0
end

local function is_same()
  return old[3] == digest and old[2] == trigger and is_sound and old[1] and old[4] and has_time
    and (has_ended or at.lane == lane and at.place ~= 'quarantine')
    and holds(schedule_key, ROWS, first_of_template - 1, IS_OURS) and holds(template_key, first_of_template, #ARGV, {})
end

if seen_version ~= '' and old[1] ~= seen_version then
  return answer({'OK', 'CHANGED', now_ms, version(), '-'})
end
if is_same() then
  return answer({'OK', 'unchanged', now_ms, old[1], at.due_ms or '-'})
end

local nominal_ms, due_ms = next_ms, nil
if anchor_ms == '' then
  anchor_ms = string.format('%.0f', now_ms)
end
local function without_jitter(rule)
  return rule and (string.gsub(rule, '"jitter_ms":%d+,', ''))
end
if old[4] and has_time and without_jitter(old[2]) == without_jitter(trigger) then
  anchor_ms, nominal_ms, due_ms = old[4], old[5], at.due_ms
elseif now_ms < tonumber(from_ms) or now_ms >= tonumber(until_ms) then
  return {'AGAIN', now_ms}
elseif string.sub(next_ms, 1, 1) == '+' then
  nominal_ms = string.format('%.0f', now_ms + tonumber(next_ms))
end
due_ms = due_ms or nominal_ms and string.format('%.0f', tonumber(nominal_ms) + tonumber(jitter_ms))

local put_version = version()
local schedule = {'version', put_version, 'trigger', trigger, 'digest', digest, 'anchor', anchor_ms,
  'lane', lane, 'updated_at', string.format('%.0f', now_ms), 'created_at', old[7] or string.format('%.0f', now_ms)}
local pause_after = false
for i = ROWS, first_of_template - 1 do
  schedule[#schedule + 1] = ARGV[i]
  if ARGV[i] == 'pause_after' and (i - ROWS) % 2 == 0 then
    pause_after = ARGV[i + 1]
  end
end
local kept = {nominal = nominal_ms, last = old[6], ended_at = not due_ms and old[8] or nil}
for field, value in pairs(kept) do
  if value then
    schedule[#schedule + 1] = field
    schedule[#schedule + 1] = value
  end
end
local template = {unpack(ARGV, first_of_template)}

local fields = {'id', id, 'due', due_ms or '-', 'schedule', #schedule / 2}
for i = 1, #schedule do
  fields[#fields + 1] = schedule[i]
end
fields[#fields + 1] = 'template'
fields[#fields + 1] = #template / 2
for i = 1, #template do
  fields[#fields + 1] = template[i]
end
if at and at.place == 'paused' and due_ms then
  fields[#fields + 1] = 'paused'
  fields[#fields + 1] = '1'
end
append('put_recurring', fields)

if at then
  remove(id, at)
end
redis.call('SADD', recurring_key, id)
redis.call('DEL', schedule_key, template_key)
redis.call('HSET', schedule_key, unpack(schedule))
redis.call('HSET', template_key, unpack(template))
if pause_after and pause_after == old[9] and old[10] then
  redis.call('HSET', schedule_key, 'failures', old[10])
end
if at and at.place == 'paused' and due_ms then
  park(paused_key, id, lane, due_ms, at.since_ms, at.note)
elseif due_ms then
  wake_if_earlier(lane, due_ms)
  redis.call('ZADD', lane_keys[lane], due_ms, id)
end
return answer({'OK', at and 'updated' or 'created', now_ms, put_version, due_ms or '-'})
