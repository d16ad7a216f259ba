-- restore: put back schedules that Redis lost, or remove those that are over.
--
-- KEYS   @schedules @trouble wake
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        seen_entry seen_t   the log's end up to which the caller compared; - and 0 when it is empty
--        hold_for_ms     > 0: nothing fires for so long, the restorer is not done yet
--        reason          lost | audit | corrected; dry: return what would be logged, and write nothing
--        archive         id of the archive that has the data
--        names           of data sets that it followed, by spaces; '' if it knows no name, or only follows this one
--        is_forced       1: also into a data set with another name
--        if_absent       1: the caller has not compared these schedules: only if none of them is there
--        ...             records with their shapes, as core/record.py writes a portion (lib/restored.lua)
--        places: due paused quarantine ended gone; restore_runs.lua has those of runs
-- RETURNS  OK, now ms, the entry's id and t (- and 0 if dry), the places of the rows as logged, by spaces  |
--          AGAIN, now ms  |  OTHER, now ms  |  HERE, now ms: at least one schedule is there
-- LOGS   restore: reason, archive, the portion as given, format; but a one-shot whose run RQ has already is `gone`
--
-- A row replaces the schedule, whatever exists there; `gone` removes it. If another program put the schedule into
-- several places, it leaves all of them. After a FLUSHALL none of the keys exists: one EXISTS for all shows it, and
-- nothing is deleted row by row.
-- include lib/restored.lua
-- include lib/place.lua
-- include lib/stamp.lua
-- include lib/state.lua
-- include lib/pushed.lua

-- Read the rows. *keys* are those that the rows write; is_new: none of them exists, and no two rows have the same id.
local rows, ids, wanted, keys, is_new = rows_given(), {}, {}, {}, true
for n, row in ipairs(rows) do
  local id, is_recurring = row.id, row.run == '-'
  row.key = is_recurring and schedule_prefix .. id or RQ_JOB .. id .. '-' .. row.run
  row.template_key = is_recurring and template_prefix .. id or row.key
  keys[2 * n - 1], keys[2 * n] = row.key, row.template_key
  is_new = is_new and not wanted[id]
  ids[n], wanted[id] = id, true
end
is_new = is_new and redis.call('EXISTS', unpack(keys)) == 0
for _, row in ipairs(rows) do
  if not is_new and row.run ~= '-' and not make_way(row.id .. '-' .. row.run) then
    row.place = 'gone'  -- it was pushed here, or a worker has it
  end
end
local places = places_of(rows)
if reason == 'dry' then
  return {'OK', now_ms, '-', '0', places}
end
-- include lib/behind.lua
local found, leaving = find(ids), {}
for n, id in ipairs(ids) do
  if found[n] and if_absent == '1' then
    return {'HERE', now_ms}
  elseif found[n] then
    leaving[#leaving + 1] = id
  end
end
local entry = log_restore()

-- Write a hash: the texts of its shape, which *begun* keeps for the next row, and those of its own.
local function write(begun, key, first, after)
  local size = begun.size
  begun[2] = key
  for i = first, after - 1 do
    size = size + 1
    begun[size] = ARGV[i]
  end
  if size > 2 then
    redis.call(unpack(begun, 1, size))
  end
end

local function begin(first, after, ...)
  local begun = texts_at(first, after, {'HSET', '', ...})
  begun.size = #begun
  return begun
end

local function write_one_shot(row)
  local shape = row.shape
  shape.job = shape.job or begin(shape.first, shape.after, 'status', 'scheduled', 'created_at', '')
  if shape.t_us ~= row.t_us then  -- with the number of this entry it is a new version
    shape.t_us, shape.job[6] = row.t_us, stamp(tonumber(row.t_us) / 1000, seq)
  end
  if row.first_own > row.first or shape.after > shape.first then
    write(shape.job, row.key, row.first, row.first_own)
  end
end

local recurring = {}
local function write_recurring(row)
  local shape = row.shape
  recurring[#recurring + 1] = row.id
  -- The version is new: a plan of the lost history's rule must not pass.
  shape.own = shape.own or begin(shape.first_own, shape.after_own, 'progress', '')
  shape.own[4] = progress_text(row.id, {version = entry .. '-' .. t, nominal_ms = row.nominal_ms,
    last = row.last, state = row.state})
  write(shape.own, row.key, row.first_own, row.after)
  if row.place == 'ended' then
    redis.call('HSET', row.key, 'ended_at', string.format('%.0f', math.floor(tonumber(row.t_us) / 1000)))
  end
  if row.state ~= '-' then
    keep_state(row.id, row.state)
  end
  shape.template = shape.template or begin(shape.first, shape.after)
  write(shape.template, row.template_key, row.first, row.first_own)
end

if #leaving > 0 then
  for _, word in ipairs(lanes) do
    redis.call('ZREM', lane_keys[word], unpack(leaving))
  end
  redis.call('HDEL', paused_key, unpack(leaving))
  redis.call('HDEL', quarantine_key, unpack(leaving))
end
local due, earliest = {}, math.huge
for n, row in ipairs(rows) do
  local id, at, place, lane = row.id, found[n], row.place, row.shape.lane
  if at then
    remove(id, at)
    if at.recurring then
      forget_state(id)
    end
  end
  if place ~= 'gone' then
    if not is_new then
      redis.call('DEL', row.key, row.template_key)
    end
    (row.run == '-' and write_recurring or write_one_shot)(row)
  end
  if place == 'due' then
    local members = due[lane] or {}
    members[#members + 1] = row.due_ms
    members[#members + 1] = id
    due[lane] = members
    earliest = math.min(earliest, tonumber(row.due_ms))
  elseif place == 'paused' or place == 'quarantine' then
    local since_ms, note = string.match(row.note, '^(%S*) ?(.*)$')
    park(place == 'paused' and paused_key or quarantine_key, id, lane, row.due_ms, since_ms, note)
  end
end
for lane, members in pairs(due) do
  redis.call('ZADD', lane_keys[lane], unpack(members))
end
if #recurring > 0 then
  redis.call('SADD', recurring_key, unpack(recurring))
end
if earliest < math.huge then
  redis.pcall('PUBLISH', wake_key, string.format('%.0f', earliest))
end
return {'OK', now_ms, entry, t, places}
