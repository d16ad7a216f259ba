-- restore: put back data that Redis lost, or remove schedules that are over.
--
-- KEYS   @schedules @trouble wake rq_queues rq_limits deadlines
-- ARGV   @prefixes unique_prefix
--        by              who asks, for the log; or ''
--        seen_entry seen_t   the log's end up to which the caller compared; - and 0 when it is empty
--        hold_for_ms     > 0: nothing fires for so long, the restorer is not done yet
--        reason          lost | audit | corrected; dry: return what would be logged, and write nothing
--        archive         id of the archive that has the data
--        names           of data sets that it followed, by spaces; '' if it knows no name, or only follows this one
--        is_forced       1: also into a data set with another name
--        if_absent       1: the caller has not compared these schedules: only if none of them is there
--        row_count
--        ...             records as rows (core/record.py): id, words, '', note, then texts of the job or template, and
--                        of the schedule's own hash (pairs). Words: run (the rest of the run id after the id), place,
--                        lane, due ms, nominal ms, last run, state (lib/state.lua), t of the last change in µs, and the
--                        two numbers of texts; - for a missing value
--        places: due paused quarantine ended gone open skipped; finish.lua has `over`
-- RETURNS  OK, now ms, the entry's id and t (- and 0 if dry), the place of each row as logged  |  AGAIN, now ms
--          |  OTHER, now ms  |  HERE, now ms: at least one schedule is there
-- LOGS   restore: reason, archive, rows n, the rows as given, format; `open` is `refused` if it cannot be pushed;
--          if RQ has the run already, `open` and `skipped` are `held`, and a waiting one-shot is `gone`
--
-- A row replaces the schedule, whatever exists there; `gone` removes it. If another program put the schedule into
-- several places, it leaves all of them. A run that was fired and is not over (`open`) is pushed again here, and marked
-- uncertain. `skipped` records that it is not pushed, as its schedule demands. RQ may have the run already: a worker
-- that took it before the loss writes its status or its end into the Redis that lost it, often without the rest of the
-- job. Such a run (`held`) is marked uncertain, and else left as it is. It is open, and the tracker records its end.
-- A run that was enqueued with a guard (zs_unique) has it again. The guards of runs that are over are lost.
-- After a FLUSHALL none of the keys exists. One EXISTS for all shows it, and then nothing is deleted row by row.
hold_for_ms, row_count = tonumber(hold_for_ms), tonumber(row_count)
-- include lib/restored.lua
-- include lib/place.lua
-- include lib/stamp.lua
-- include lib/texts.lua
-- include lib/state.lua
-- include lib/launch.lua
-- include lib/pushed.lua
-- include lib/unique.lua

local IS_SCHEDULE = {due = true, paused = true, quarantine = true, ended = true, gone = true}

-- Return whether a run waits for its time, with its job, and no row before this one replaces its schedule.
local replaced = {}
local function waits(row)
  local at = not replaced[row.id] and find({row.id})[1]
  return at and not at.recurring and run_key(row.id, at.due_ms) == RQ_JOB .. row.run_id
    and is_a(RQ_JOB .. row.run_id, 'hash')
end

-- Read the rows. *keys* are those that the rows write; is_new: none of them exists, and no two rows have the same id.
local rows, ids, places, wanted, keys, is_new, at = {}, {}, {}, {}, {}, true, ROWS
for n = 1, row_count do
  local row = row_at(at)
  local id, first, after = row.id, row.first, row.after
  if row.place == 'open' then
    local given = by_name(ARGV, first, after - 1)
    row.queue, row.expires_ms, row.unique_ms = given.origin, whole_of(given.zs_expires), whole_of(given.zs_unique)
    row.at_front = string.find((given.zs or '') .. (given.flags or ''), 'f', 1, true)
    row.rate_limit = limit_of(given.rate_limit_key, given.rate_limit_concurrency)
  end
  if row.run ~= '-' then
    row.run_id = id .. '-' .. row.run
    keys[#keys + 1] = RQ_JOB .. row.run_id
  else
    keys[#keys + 1] = schedule_prefix .. id
    keys[#keys + 1] = template_prefix .. id
  end
  is_new = is_new and not wanted[id]
  rows[n], ids[n], wanted[id], at = row, id, true, after
end
is_new = is_new and redis.call('EXISTS', unpack(keys)) == 0

-- Decide the place of each row.
for n, row in ipairs(rows) do
  local place = row.place
  if place ~= 'gone' and row.run ~= '-' then
    if not is_new and not make_way(row.run_id) then  -- it was pushed here, or a worker has it
      row.place = IS_SCHEDULE[place] and 'gone' or 'held'
    elseif place == 'open' and (row.rate_limit == false or not queue_accepts(row.queue) or waits(row)) then
      row.place = 'refused'
    end
  end
  places[n] = row.place
  if row.place ~= place then
    note_place(row)
  end
  replaced[row.id] = replaced[row.id] or IS_SCHEDULE[place]
end
if reason == 'dry' then
  return {'OK', now_ms, '-', '0', places}
end
-- include lib/behind.lua
local found, leaving = find(ids), {}
for n, row in ipairs(rows) do
  if found[n] and if_absent == '1' then
    return {'HERE', now_ms}
  elseif found[n] and IS_SCHEDULE[row.place] then
    leaving[#leaving + 1] = row.id
  end
end

local entry = log_restore()
local earliest = nil
local due, recurring = {high = {}, normal = {}, low = {}}, {}

-- Return RQ's created_at; rows of the same put share their t. With the number of this entry it is a new version.
local isos = {}
local function changed_at(t_us)
  isos[t_us] = isos[t_us] or stamp(tonumber(t_us) / 1000, seq)
  return isos[t_us]
end

local function put_back(row)
  local key = schedule_prefix .. row.id
  if row.run == '-' then
    recurring[#recurring + 1] = row.id
    if not is_new then
      redis.call('DEL', key, template_prefix .. row.id)
    end
    -- The version is new: a plan of the lost history's rule must not pass.
    local own = {'version', entry .. '-' .. t, unpack(ARGV, row.first_own, row.after - 1)}
    local ended_at = row.place == 'ended' and string.format('%.0f', math.floor(tonumber(row.t_us) / 1000)) or '-'
    for _, field in ipairs({{'nominal', row.nominal_ms}, {'last', row.last}, {'ended_at', ended_at}}) do
      if field[2] ~= '-' then
        own[#own + 1], own[#own + 2] = field[1], field[2]
      end
    end
    redis.call('HSET', key, unpack(own))
    if row.state ~= '-' then
      keep_state(row.id, row.state)
    end
    if row.first_own > row.first then
      redis.call('HSET', template_prefix .. row.id, unpack(ARGV, row.first, row.first_own - 1))
    end
  else
    local job_key = RQ_JOB .. row.run_id
    if not is_new then
      redis.call('DEL', job_key)
    end
    if row.first_own > row.first then
      redis.call('HSET', job_key, 'status', 'scheduled', 'created_at', changed_at(row.t_us),
        unpack(ARGV, row.first, row.first_own - 1))
    end
  end
  if row.place == 'due' then
    local lane = due[row.lane]
    lane[#lane + 1] = row.due_ms
    lane[#lane + 1] = row.id
    if not earliest or tonumber(row.due_ms) < tonumber(earliest) then
      earliest = row.due_ms
    end
  elseif row.place ~= 'ended' then
    local since_ms, note = string.match(row.note, '^(%S*) ?(.*)$')
    park(row.place == 'paused' and paused_key or quarantine_key, row.id, row.lane, row.due_ms, since_ms, note)
  end
end

if #leaving > 0 then
  for _, word in ipairs(lanes) do
    redis.call('ZREM', lane_keys[word], unpack(leaving))
  end
  redis.call('HDEL', paused_key, unpack(leaving))
  redis.call('HDEL', quarantine_key, unpack(leaving))
end
for n, row in ipairs(rows) do
  if IS_SCHEDULE[row.place] then
    if found[n] then
      remove(row.id, found[n])
      if found[n].recurring then
        forget_state(row.id)
      end
    end
    if row.place ~= 'gone' then
      put_back(row)
    end
  elseif row.place == 'open' then
    redis.call('DEL', RQ_JOB .. row.run_id)
    -- The deadline counts from the run's time, or from its push (t) if that was later: backfilled, retried, or late.
    -- It may have passed long ago: then no worker begins the run.
    local due_ms, deadline_ms = tonumber(row.due_ms), nil
    if row.expires_ms and due_ms then
      deadline_ms = math.max(due_ms, tonumber(row.t_us) / 1000) + row.expires_ms
    end
    launch(row.run_id, row.queue, {fields = {unpack(ARGV, row.first, row.first_own - 1)}, at_front = row.at_front,
      rate_limit = row.rate_limit, is_uncertain = true, deadline_ms = deadline_ms})
  elseif row.place == 'held' then
    redis.call('HSET', RQ_JOB .. row.run_id, 'zs_uncertain', '1')  -- it may also wait in its queue: an older copy
  end
  if row.unique_ms and (row.place == 'open' or row.place == 'held') then
    guard(row.id, row.run_id, math.floor(tonumber(row.t_us) / 1000) + row.unique_ms)
  end
end
push_all()
for lane, members in pairs(due) do
  if #members > 0 then
    redis.call('ZADD', lane_keys[lane], unpack(members))
  end
end
if #recurring > 0 then
  redis.call('SADD', recurring_key, unpack(recurring))
end
if earliest then
  redis.pcall('PUBLISH', wake_key, earliest)
end
return {'OK', now_ms, entry, t, places}
