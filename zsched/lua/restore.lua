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
--                        lane, due ms, nominal ms, last run, t of the last change in µs, and the two numbers of texts;
--                        - for a missing value
--        places: due paused quarantine ended gone open skipped over
-- RETURNS  OK, now ms, the entry's id and t (- and 0 if dry), the place of each row as logged  |  AGAIN, now ms
--          |  OTHER, now ms  |  HERE, now ms: at least one schedule is there
-- LOGS   restore: reason, archive, rows n, the rows as given, format; `open` is `refused` if it cannot be pushed;
--          if RQ has the run already, `open` and `skipped` are `held`, and a waiting one-shot is `gone`;
--          `over` is `again` if the run does not wait any more, or others wait for it, or a worker began it once more
--
-- A row replaces the schedule, whatever exists there; `gone` removes it. If another program put the schedule into
-- several places, it leaves all of them. A run that was fired and is not over (`open`) is pushed again here, and marked
-- uncertain. `skipped` records that it is not pushed, as its schedule demands. RQ may have the run already: a worker
-- that took it before the loss writes its status or its end into the Redis that lost it, often without the rest of the
-- job. Such a run (`held`) is marked uncertain, and else left as it is. It is open, and the tracker records its end.
-- A run that is over (`over`) and that RQ has once more, because Redis went back, is taken out of its queue. A worker
-- may have taken it before: such a run (`again`) is marked uncertain. So is a run that others wait for: RQ releases
-- them when it ends. If Redis went back to the middle of the run, its job says that a worker has it, and that is not so
-- any more: the note of `over` is "<started_at> <status> <ended_at>", the first as the job has it, the others its end.
-- Then that end is written into the job, unless a worker began it since.
-- A run that was enqueued with a guard (zs_unique) has it again; the guards of runs that are over are lost.
-- The entry keeps each row's old t, by which archives with different data agree (rule: LATEST_CHANGE). A row may be of
-- a newer format than the leader's, if its archives never saw a newer leader. So the format is noted, as in acquire.
--
-- A restore shows that there was another history. Schedules that are due by now may have been pushed in it. A leader
-- without that knowledge may have taken the data set for a new one, without doubt (name.lua): so doubt is set here, as
-- in acquire. If doubt was set at the loss, it stays: schedules that came due later cannot have been pushed before.
-- But another data set may have gone on after that: its schedules are in doubt until now.
-- A data set without a name gets the name of the archive, so it does not count as new, even if the restorer dies.
--
-- After a FLUSHALL none of the keys exists. One EXISTS for all shows it, and then nothing is deleted row by row.
hold_for_ms, row_count = tonumber(hold_for_ms), tonumber(row_count)
-- include lib/hold_on.lua
-- include lib/place.lua
-- include lib/stamp.lua
-- include lib/texts.lua
-- include lib/trouble.lua
-- include lib/launch.lua
-- include lib/pushed.lua
-- include lib/unique.lua
-- include lib/waiting.lua
-- include lib/failed.lua
-- include lib/same_set.lua
-- include lib/loss.lua

local IS_SCHEDULE = {due = true, paused = true, quarantine = true, ended = true, gone = true}

-- Return whether a run waits for its time, with its job, and no row before this one replaces its schedule.
local replaced = {}
local function waits(row)
  local at = not replaced[row.id] and find({row.id})[1]
  return at and not at.recurring and run_key(row.id, at.due_ms) == RQ_JOB .. row.run_id
    and is_a(RQ_JOB .. row.run_id, 'hash')
end

local MOST_WAITING = 50000  -- runs of a queue to search: more would block Redis

-- Return the run of *row*, which is over, as take_out needs it; nil if it does not wait, or others wait for it.
local function waiting_still(row)
  local job = redis.pcall('HMGET', RQ_JOB .. row.run_id, 'status', 'origin', 'rate_limit_key')
  if job.err then
    return nil
  end
  local one = {run = row.run_id, status = word_of(job[1]), queue = job[2] or '', limit_key = job[3]}
  if redis.call('EXISTS', dependents_key(row.run_id)) == 0 and is_in_place(one, MOST_WAITING) then
    one.dependencies = dependencies_of(row.run_id)
    return one
  end
end

-- Return the run of *row* with its end; nil if its job is not as it was in the middle of the run. The
-- list of its executions lapses after a minute, so its members in rq:wip are searched: one per busy worker.
local function running_still(row)
  local job = redis.pcall('HMGET', RQ_JOB .. row.run_id, 'status', 'started_at', 'origin', 'failure_ttl',
    'zs_failure_ttl')
  local started_at, status, ended_at = string.match(row.note, '^(%S+) (%S+) (%S+)$')
  if job.err or job[1] ~= 'started' or job[2] ~= started_at or not job[3] then
    return nil
  end
  local one = {run = row.run_id, queue = job[3], failure_ttl = job[5] or job[4], status = status, ended_at = ended_at}
  one.wip_key, one.members = RQ_WIP .. one.queue, {}
  if not is_a(one.wip_key, 'zset') or not is_a(RQ_FAILED .. one.queue, 'zset') then
    return nil
  end
  local start = one.run .. ':'
  for _, member in ipairs(redis.call('ZRANGE', one.wip_key, 0, -1)) do
    if string.sub(member, 1, #start) == start and not string.find(member, ':', #start + 1, true) then
      one.members[#one.members + 1] = member
    end
  end
  return one
end

-- Give the run the end that it had. No worker has it: its slot and its chain are free by its job's status.
local function end_as_known(one)
  local job_key = RQ_JOB .. one.run
  for _, member in ipairs(one.members) do
    redis.call('ZREM', one.wip_key, member)
  end
  redis.call('DEL', RQ_EXECUTIONS .. one.run)
  redis.call('HSET', job_key, 'status', one.status, 'ended_at', one.ended_at)
  if one.status == 'failed' then
    keep_failed(one.run, one.queue, one.failure_ttl)
  else
    redis.call('PEXPIRE', job_key, REMAINS_MS)
  end
end

-- Read the rows. *keys* are those that the rows write; is_new: none of them exists, and no two rows have the same id.
local WORDS = '^' .. string.rep('(%S+) ', 8) .. '(%S+)$'
local rows, ids, places, wanted, keys, is_new, at = {}, {}, {}, {}, {}, true, ROWS
for n = 1, row_count do
  local id, words, _, note = unpack(ARGV, at, at + 3)
  local run, place, lane, due_ms, nominal_ms, last, t_us, job_size, own_size = string.match(words, WORDS)
  local first, first_own = at + 4, at + 4 + tonumber(job_size)
  local after = first_own + tonumber(own_size)
  local row = {id = id, run = run, place = place, lane = lane, due_ms = due_ms, nominal_ms = nominal_ms, last = last,
    t_us = t_us, note = note, first = first, first_own = first_own, after = after}
  if place == 'open' then
    local given = by_name(ARGV, first, after - 1)
    row.queue, row.expires_ms, row.unique_ms = given.origin, whole_of(given.zs_expires), whole_of(given.zs_unique)
    row.at_front = string.find((given.zs or '') .. (given.flags or ''), 'f', 1, true)
    row.rate_limit = limit_of(given.rate_limit_key, given.rate_limit_concurrency)
  end
  if run ~= '-' then
    row.run_id = id .. '-' .. run
    keys[#keys + 1] = RQ_JOB .. row.run_id
  else
    keys[#keys + 1] = schedule_prefix .. id
    keys[#keys + 1] = template_prefix .. id
  end
  is_new = is_new and not wanted[id]
  rows[n], ids[n], wanted[id], row.words_at, at = row, id, true, at + 1, after
end
is_new = is_new and redis.call('EXISTS', unpack(keys)) == 0

-- Decide the place of each row.
for n, row in ipairs(rows) do
  local place = row.place
  if place == 'over' then
    row.one = waiting_still(row) or running_still(row)
    row.place = row.one and 'over' or 'again'
  elseif place ~= 'gone' and row.run ~= '-' then
    if not is_new and not make_way(row.run_id) then  -- it was pushed here, or a worker has it
      row.place = IS_SCHEDULE[place] and 'gone' or 'held'
    elseif place == 'open' and (row.rate_limit == false or not queue_accepts(row.queue) or waits(row)) then
      row.place = 'refused'
    end
  end
  if row.place ~= place then
    ARGV[row.words_at] = string.gsub(ARGV[row.words_at], ' %S+', ' ' .. row.place, 1)
  end
  places[n] = row.place
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

local fields = {'reason', reason, 'archive', archive, 'rows', row_count, unpack(ARGV, ROWS)}
fields[#fields + 1] = 'format'
fields[#fields + 1] = FORMAT
local entry = append('restore', fields)
redis.call('HSET', meta_key, 'format', FORMAT)
if not named and names ~= '' then
  redis.call('HSET', meta_key, 'gen', names)
end
hold_on(hold_for_ms)
if reason ~= 'audit' then
  note_loss()
end
if reason ~= 'audit' and (doubt_ms < 0 or is_other and doubt_ms < now_ms) then
  redis.call('HSET', meta_key, 'doubt', string.format('%.0f', now_ms))
end
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
        forget_trouble(row.id)
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
  elseif row.place == 'over' then
    if row.one.ended_at then
      end_as_known(row.one)
    else
      take_out(row.one)
      redis.call('PEXPIRE', RQ_JOB .. row.run_id, REMAINS_MS)
    end
    redis.call('ZREM', deadlines_key, row.run_id)
  elseif row.place == 'held' or row.place == 'again' and is_a(RQ_JOB .. row.run_id, 'hash') then
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
