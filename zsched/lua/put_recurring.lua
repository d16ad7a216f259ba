-- put_recurring: create or replace recurring schedules.
--
-- KEYS   @schedules @trouble wake op
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        shape_count     number of shapes; a shape is the part that rows share
--        ...             per shape: lane, if_exists (replace | keep | error), enabled (1: not paused; 0: paused; '' as
--                        it is, and a new one not paused), number of texts for the schedule's hash, number of texts
--                        for the template, those field/value texts; then per row:
--                        shape           its number, from 1
--                        id
--                        seen_version    version that the caller read; '' when the put is not conditional
--                        trigger         the rule's canonical text
--                        digest          of the whole definition
--                        name            the signature of the data, or data (core/runs/job.py)
--                        data            the template's
--                        anchor_ms       the rule's anchor, or '' for TIME
--                        next_ms         first nominal time: ms by the caller's plan, or +ms from TIME
--                        jitter_ms       how much later than that it is due
--                        from_ms until_ms   the plan holds while from_ms <= TIME < until_ms
-- RETURNS  OK, now ms, <entry>/<version of written rows>, then per row: word, due ms
--        words: created updated unchanged kept EXISTS CHANGED:<present version> WRONGTYPE AGAIN; due ms may be -
--        AGAIN: plan this row once more from now
-- LOGS   put_recurring: shapes n, per shape: lane, schedule n, its pairs, template n, its pairs; rows n, per written
--        row (id, words), (trigger, text), (name, data). Words: shape, due, nominal, anchor, created_at, last,
--        ended_at, paused if it is paused, state, digest; - for a missing value. After the word for paused comes
--        :<nominal ms> of an overdue occurrence that the new rule drops. The other fields of a schedule's hash follow,
--        as version is the entry's position, and updated_at its time
--
-- The anchor (TIME at the rule's creation, or just before) and the due time stay while the trigger's text is the same,
-- its jitter aside. So a new payload neither moves nor repeats an occurrence, and new jitter counts from the next
-- occurrence on. A new rule is planned from now on: it drops an occurrence that is due and has not fired, with those
-- behind it. Without `enabled` a put never resumes. A change of pause_after, or a resume, resets the count of failures
-- in a row (lib/state.lua).
shape_count = tonumber(shape_count)
-- include lib/op.lua
-- include lib/version.lua
-- include lib/wake.lua
-- include lib/texts.lua
-- include lib/holds.lua
-- include lib/remove.lua

local ROW_SIZE = 12  -- texts of a row
local MS = '^%-?%d+$'
local READ = {'trigger', 'digest', 'anchor', 'created_at', 'ended_at', 'pause_after'}
local FORMS = {anchor = MS, created_at = MS, ended_at = MS}
local function any() return true end
local OURS = {  -- fields of a schedule's hash that no caller gives
  progress = any, trigger = any, digest = any, anchor = any, lane = any, created_at = any, updated_at = any,
  ended_at = any,
}
local NONE = {}
local now = string.format('%.0f', now_ms)

-- Field/value texts of ARGV: their positions, and as a table.
local function pairs_at(first, size)
  return {first = first, after = first + size, size = size, asked = by_name(ARGV, first, first + size - 1)}
end

local shapes, first_row = {}, ROWS  -- by their numbers as texts
for n = 1, shape_count do
  local first = first_row + 5
  local own = pairs_at(first, tonumber(ARGV[first - 2]))
  local template = pairs_at(first + own.size, tonumber(ARGV[first - 1]))
  shapes[string.format('%d', n)] = {lane = ARGV[first - 5], if_exists = ARGV[first - 4], enabled = ARGV[first - 3],
    own = own, template = template}
  first_row = first + own.size + template.size
end
local ids, keys = {}, {}
for i = first_row, #ARGV, ROW_SIZE do
  local n = #ids + 1
  ids[n] = ARGV[i + 1]
  keys[2 * n - 1], keys[2 * n] = schedule_prefix .. ids[n], template_prefix .. ids[n]
end
local found = find(ids)
local has_hashes = redis.call('EXISTS', unpack(keys)) > 0  -- of at least one schedule

-- Return the hash of a schedule and its progress without what is malformed, as another program wrote it; and whether
-- nothing was malformed.
local function read(id, schedule_key)
  local values, old = redis.call('HMGET', schedule_key, unpack(READ)), progress_of(id) or {}
  local is_sound = old.version ~= nil
  for n, field in ipairs(READ) do
    local value, form = values[n], FORMS[field]
    if value and form and not (string.find(value, form) and (form ~= MS or #value <= 16)) then
      is_sound = false
    elseif value then
      old[field] = value
    end
  end
  return old, is_sound
end

local function without_jitter(rule)
  return rule and (string.gsub(rule, '"jitter_ms":%d+,', ''))
end

-- Read and decide. The values to write for row n are in olds[n], anchors[n], nominals[n], dues[n] and pauses[n].
local put_version = version() .. '-' .. t  -- see lib/version.lua; of the entry that is appended below
local reply = {'OK', now_ms, version() .. '/' .. put_version}
local written, used = {}, {}  -- used: the shapes of written rows
local rows, row_count, olds, anchors, nominals, dues, endings, pauses, states = {}, 0, {}, {}, {}, {}, {}, {}, {}

-- Return the state after the put. A resume ends all trouble, and another pause_after begins anew to count failures.
-- Skips stay: one that the new rule does not have is shown nowhere, and goes when it has passed.
local function state_after(at, old, shape, is_paused)
  if at and at.place == 'paused' and not is_paused then
    return without_counts(old.state)
  elseif at and old.pause_after ~= shape.own.asked.pause_after then
    return with_count(old.state, 'failures', 0)
  end
  return old.state or ''
end

for n, id in ipairs(ids) do
  local number, _, seen_version, trigger, digest, name, data, anchor_ms, next_ms, jitter_ms, from_ms, until_ms =
    unpack(ARGV, first_row + ROW_SIZE * (n - 1), first_row + ROW_SIZE * n - 1)
  local shape, at, schedule_key, template_key = shapes[number], found[n], keys[2 * n - 1], keys[2 * n]
  local old, is_sound, has_ended, has_time = NONE, true, false, false  -- has_time: this put may keep its time
  local word, due_ms, nominal_ms, dropped = nil, nil, nil, ''
  if has_hashes and not (is_a(schedule_key, 'hash') and is_a(template_key, 'hash')) then
    word = 'WRONGTYPE'
  elseif at and (shape.if_exists == 'error' or shape.if_exists == 'keep' and at.place ~= 'quarantine') then
    word, due_ms = shape.if_exists == 'keep' and 'kept' or 'EXISTS', at.due_ms
  elseif at and at.recurring then
    old, is_sound = read(id, schedule_key)
    has_ended = at.place == 'ended' and old.ended_at and not old.nominal_ms
    has_time = has_ended or old.nominal_ms
      and (at.place == 'ended' or (whole_of(at.due_ms) or -math.huge) >= tonumber(old.nominal_ms))
  end
  if not word and seen_version ~= '' and version_of(id, at) ~= seen_version then
    word = 'CHANGED:' .. version_of(id, at)
  elseif not word and old.digest == digest and old.trigger == trigger and is_sound and old.anchor
    and has_time and (has_ended or at.lane == shape.lane and at.place ~= 'quarantine'
      and (at.place == 'paused') == will_pause(shape.enabled, at))
    and holds(schedule_key, shape.own.asked, shape.own.size / 2, OURS)
    and holds(template_key, shape.template.asked, shape.template.size / 2, NONE, data, name) then
    word, due_ms = 'unchanged', at.due_ms
  elseif not word and old.anchor and has_time and without_jitter(old.trigger) == without_jitter(trigger) then
    anchor_ms, nominal_ms, due_ms = old.anchor, old.nominal_ms, at.due_ms
  elseif not word and (now_ms < tonumber(from_ms) or now_ms >= tonumber(until_ms)) then
    word = 'AGAIN'
  elseif not word then
    nominal_ms = string.sub(next_ms, 1, 1) == '+' and string.format('%.0f', now_ms + tonumber(next_ms)) or next_ms
    due_ms = jitter_ms == '0' and nominal_ms or string.format('%.0f', tonumber(nominal_ms) + tonumber(jitter_ms))
    anchor_ms = anchor_ms == '' and now or anchor_ms
    local waits_ms = at and (at.place == 'due' or at.place == 'paused') and old.nominal_ms and whole_of(at.due_ms)
    dropped = waits_ms and waits_ms <= now_ms and ':' .. old.nominal_ms or ''
  end
  if not word then
    word = at and 'updated' or 'created'
    if not due_ms and nominal_ms then  -- it had no place
      due_ms = string.format('%.0f', tonumber(nominal_ms) + tonumber(jitter_ms))
    end
    if not shape.number then
      used[#used + 1] = shape
      shape.number = string.format('%d', #used)
    end
    written[#written + 1] = n
    olds[n], anchors[n], nominals[n], dues[n] = old, anchor_ms, nominal_ms or false, due_ms or false
    endings[n] = not due_ms and old.ended_at or false
    pauses[n] = due_ms and will_pause(shape.enabled, at)
    states[n] = state_after(at, old, shape, pauses[n])
    rows[row_count + 1] = id
    rows[row_count + 2] = shape.number .. ' ' .. (due_ms or '-') .. ' ' .. (nominal_ms or '-') .. ' ' .. anchor_ms
      .. ' ' .. (old.created_at or now) .. ' ' .. (old.last or '-') .. ' ' .. (endings[n] or '-')
      .. (pauses[n] and ' paused' or ' -') .. dropped .. ' ' .. state_word(states[n]) .. ' ' .. digest
    rows[row_count + 3] = 'trigger'
    rows[row_count + 4] = trigger
    rows[row_count + 5] = name
    rows[row_count + 6] = data
    row_count = row_count + 6
  end
  reply[2 * n + 2], reply[2 * n + 3] = word, due_ms or '-'
end
if #written == 0 then
  return answer(reply)
end

local fields = {'shapes', #used}
for _, shape in ipairs(used) do
  for _, text in ipairs({'lane', shape.lane, 'schedule', shape.own.size / 2}) do
    fields[#fields + 1] = text
  end
  texts_at(shape.own.first, shape.own.after, fields)
  fields[#fields + 1] = 'template'
  fields[#fields + 1] = shape.template.size / 2
  texts_at(shape.template.first, shape.template.after, fields)
end
fields[#fields + 1] = 'rows'
fields[#fields + 1] = #written
local head = #fields
for i = 1, row_count do
  fields[head + i] = rows[i]
end
append('put_recurring', fields)

-- One HSET per shape; the texts of each row are filled in. What fire and advance read stands first.
for _, shape in ipairs(used) do
  shape.schedule = {'HSET', '', 'progress', '', 'trigger', '', 'anchor', '', 'digest', '', 'created_at', '',
    'updated_at', now, 'lane', shape.lane}
  texts_at(shape.own.first, shape.own.after, shape.schedule)
  shape.schedule_size = #shape.schedule
  shape.job = {'HSET', '', 'data', ''}
  texts_at(shape.template.first, shape.template.after, shape.job)
  shape.job_size = #shape.job
end
local new_ids, old_keys, members = {}, {}, {}
for _, n in ipairs(written) do
  local at, lane = found[n], shapes[ARGV[first_row + ROW_SIZE * (n - 1)]].lane
  new_ids[#new_ids + 1] = ids[n]
  if at and not at.recurring then
    remove(ids[n], at)
  elseif at and (pauses[n] or not (dues[n] and at.key == lane_keys[lane])) then  -- else ZADD moves it
    leave(ids[n], at)
  end
  if has_hashes then
    old_keys[#old_keys + 1] = keys[2 * n - 1]
    old_keys[#old_keys + 1] = keys[2 * n]
  end
end
if has_hashes then
  redis.call('DEL', unpack(old_keys))
end
redis.call('SADD', recurring_key, unpack(new_ids))
for _, n in ipairs(written) do
  local row = first_row + ROW_SIZE * (n - 1)
  local shape, old, at, due_ms = shapes[ARGV[row]], olds[n], found[n], dues[n]
  local lane, schedule, size, job = shape.lane, shape.schedule, shape.schedule_size, shape.job
  schedule[2], schedule[6], schedule[8] = keys[2 * n - 1], ARGV[row + 3], anchors[n]
  schedule[4] = progress_text(ids[n], {version = put_version, nominal_ms = nominals[n], last = old.last,
    state = states[n]})
  schedule[10], schedule[12] = ARGV[row + 4], old.created_at or now
  if endings[n] then
    schedule[size + 1], schedule[size + 2], size = 'ended_at', endings[n], size + 2
  end
  redis.call(unpack(schedule, 1, size))
  if states[n] ~= (old.state or '') then
    keep_state(ids[n], states[n])
  end
  local name = ARGV[row + 5]
  size = shape.job_size
  job[2], job[4], job[size + 1], job[size + 2] = keys[2 * n], ARGV[row + 6], 'zs_sig', name
  redis.call(unpack(job, 1, name ~= 'data' and size + 2 or size))
  if pauses[n] then
    local was = at and at.place == 'paused' and at or NONE
    park(paused_key, ids[n], lane, due_ms, was.since_ms, was.note)
  elseif due_ms then
    local to = members[lane] or {}
    to[#to + 1] = due_ms
    to[#to + 1] = ids[n]
    members[lane] = to
  end
end
for lane, to in pairs(members) do
  enter(lane, to)
end
return answer(reply)
