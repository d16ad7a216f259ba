-- restore: restore schedules that Redis lost, or remove those that are over.
--
-- KEYS   @schedules @trouble resumes wake
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
-- RETURNS  OK, now ms, the entry's id and t (- and 0 if dry), number (from 0) and place of each row that is logged with
--          another place than given, by spaces  |
--          AGAIN, now ms  |  OTHER, now ms  |  HERE, now ms: at least one schedule is there
-- LOGS   restore: reason, archive, the portion as given, format; but a one-shot whose run RQ has already is `gone`
--
-- A row replaces the schedule, whatever exists there; `gone` removes it. If another program put the schedule into
-- several places, it leaves all of them. After a FLUSHALL none of the keys exists: one EXISTS for all shows it, and
-- nothing is deleted row by row.
-- include lib/restored.lua
-- include lib/stamp.lua
-- include lib/remove.lua
-- include lib/pushed.lua

-- Read the rows. *keys* are those that the rows write; is_new: none of them exists, and no two rows have the same id.
local rows, ids, wanted, keys, is_new = rows_given(), {}, {}, {}, true
for n, row in ipairs(rows) do
  local id = row.id
  if row.run == '-' then
    row.key = schedule_prefix .. id
    keys[#keys + 1] = template_prefix .. id
  else
    row.key = RQ_JOB .. id .. '-' .. row.run
  end
  keys[#keys + 1] = row.key
  is_new = is_new and not wanted[id]
  ids[n], wanted[id] = id, true
end
is_new = is_new and redis.call('EXISTS', unpack(keys)) == 0
for _, row in ipairs(rows) do
  if not is_new and row.run ~= '-' and not make_way(row.id .. '-' .. row.run) then
    row.place = 'gone'  -- it was pushed here, or a worker has it
  end
end
-- include lib/dry.lua
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

-- Write a hash: *begun* with the texts of ARGV from *first* on, which take the places of the last row's.
local function write(begun, key, first, after)
  begun.size = begun.size or #begun
  begun[2] = key
  local argv, to = ARGV, begun.size + 1 - first
  for i = first, after - 1 do
    begun[to + i] = argv[i]
  end
  if to + after > 3 then
    redis.call(unpack(begun, 1, to + after - 1))
  end
end

local function write_one_shot(row)
  local kind, shape = row.kind, row.kind.shape
  if not kind.job then  -- with the number of this entry, created_at is a new version
    local created_at = stamp(tonumber(kind.t_us) / 1000, seq)
    kind.job = texts_at(shape.first, shape.after, {'HSET', '', 'status', 'scheduled', 'created_at', created_at})
  end
  if kind.job_size > 0 or shape.after > shape.first then
    write(kind.job, row.key, row.first, row.first_own)
  end
end

local recurring = {}
local function write_recurring(row)
  local kind, shape = row.kind, row.kind.shape
  recurring[#recurring + 1] = row.id
  if not kind.own then
    local own = {'HSET', '', 'progress', ''}
    if row.place == 'ended' then
      own[5], own[6] = 'ended_at', string.format('%.0f', math.floor(tonumber(kind.t_us) / 1000))
    end
    kind.own = texts_at(shape.first_own, shape.after_own, own)
    kind.template = texts_at(shape.first, shape.after, {'HSET', '', 'status', 'queued'})
  end
  -- The version is new: a plan of the lost history's rule must not pass.
  kind.own[4] = progress_text(row.id, {version = entry .. '-' .. t, last = kind.last, state = kind.state,
    nominal_ms = kind.nominal_ms == '=' and row.due_ms or kind.nominal_ms})
  write(kind.own, row.key, row.first_own, row.first_own + kind.own_size)
  if kind.state ~= '-' then
    keep_state(row.id, kind.state)
  end
  write(kind.template, template_prefix .. row.id, row.first, row.first_own)
end

if #leaving > 0 then
  for _, word in ipairs(lanes) do
    redis.call('ZREM', lane_keys[word], unpack(leaving))
  end
  redis.call('HDEL', paused_key, unpack(leaving))
  redis.call('HDEL', quarantine_key, unpack(leaving))
end
local due = {}
for n, row in ipairs(rows) do
  local id, at, place, lane = row.id, found[n], row.place, row.kind.shape.lane
  if at then
    remove(id, at)
  end
  if place ~= 'gone' then
    if not is_new then
      redis.call('DEL', row.key, template_prefix .. id)
    end
    (row.run == '-' and write_recurring or write_one_shot)(row)
  end
  if place == 'due' then
    local members = due[lane] or {}
    members[#members + 1] = row.due_ms
    members[#members + 1] = id
    due[lane] = members
  elseif place == 'paused' or place == 'quarantine' then
    local since_ms, note = string.match(row.kind.note, '^(%S*) ?(.*)$')
    park(place == 'paused' and paused_key or quarantine_key, id, lane, row.due_ms, since_ms, note)
    local until_ms = place == 'paused' and string.match(note, '\31.*\31(%d+)$')
    if until_ms then
      redis.call('ZADD', resumes_key, until_ms, id)
    end
  end
end
if #recurring > 0 then
  redis.call('SADD', recurring_key, unpack(recurring))
end
for lane, members in pairs(due) do
  redis.call('ZADD', lane_keys[lane], unpack(members))
  redis.pcall('PUBLISH', wake_key, redis.call('ZRANGE', lane_keys[lane], 0, 0, 'WITHSCORES')[2])
end
return {'OK', now_ms, entry, t, places}
