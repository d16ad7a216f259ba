-- restore_runs: push runs again that were not over, and end runs that RQ has once more, because Redis went back.
--
-- KEYS   @schedules rq_queues rq_limits chains deadlines
-- ARGV   run_suffix unique_prefix waiting_prefix
--        by              who asks, for the log; or ''
--        seen_entry seen_t hold_for_ms reason archive names is_forced   as in restore
--        ...             records with their shapes, as in restore
--        places: open skipped over
-- RETURNS  OK, now ms, the entry's id and t (- and 0 if dry), places as in restore  |
--          AGAIN, now ms  |  OTHER, now ms
-- LOGS   restore: as in restore; `open` is `refused` if it cannot be pushed, and `open` and `skipped` are `held` if RQ
--          has the run already; `over` is `again` if the run does not wait any more, or a worker began it
--          once more
--
-- A run that was fired and is not over (`open`) is pushed again here, and marked uncertain. `skipped` records that it
-- is not pushed, as its schedule demands. RQ may have the run already: a worker that took it before the loss writes its
-- status or its end into the Redis that lost it, often without the rest of the job. Such a run (`held`) is marked
-- uncertain, and else left as it is. It is open, and the tracker records its end. A run that was enqueued with a guard
-- (zs_unique) has it again. The guards of runs that are over are lost. A run with overlap="queue" (zs has a q) is not
-- pushed: it waits in the list of its schedule, behind those that RQ has; unblock.lua launches them one by one.
--
-- A run that is over is taken out of its queue. A worker may have taken it before: such a run (`again`) is marked
-- uncertain. So is a run that jobs of RQ depend on: RQ releases them when it ends. If Redis went back to the middle of
-- the run, its job says that a worker has it, which is not so any more. The note is then "<started_at> <status>
-- <ended_at>", the first as the job has it, the others its end. That end is written into the job, unless a worker began
-- it since.
-- include lib/rq.lua
-- include lib/restored.lua
-- include lib/waiting.lua
-- include lib/failed.lua
-- include lib/place.lua
-- include lib/texts.lua
-- include lib/launch.lua
-- include lib/chain.lua
-- include lib/pushed.lua
-- include lib/unique.lua

local MOST_WAITING = 50000  -- runs of a queue to search: more would block Redis

-- Return the run as take_out needs it; nil if it does not wait, or jobs of RQ depend on it.
local function waiting_still(row)
  local one = job_of(row.run_id)
  one.id = row.id
  return redis.call('EXISTS', dependents_key(row.run_id)) == 0 and is_in_place(one, MOST_WAITING) and one or nil
end

-- Return the run with its end; nil if its job is not as it was in the middle of the run. The
-- list of its executions lapses after a minute, so its members in rq:wip are searched: one per busy worker.
local function running_still(run, note)
  local job = redis.pcall('HMGET', RQ_JOB .. run, 'status', 'started_at', 'origin', 'failure_ttl',
    'zs_failure_ttl')
  local started_at, status, ended_at = string.match(note, '^(%S+) (%S+) (%S+)$')
  if job.err or job[1] ~= 'started' or job[2] ~= started_at or not job[3] then
    return nil
  end
  local one = {run = run, queue = job[3], failure_ttl = job[5] or job[4], status = status, ended_at = ended_at}
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

-- Read what the push of an open run needs; return whether it can be pushed.
local function may_push(row)
  local shape = row.kind.shape
  row.job = texts_at(row.first, row.first_own, texts_at(shape.first, shape.after))
  local own_texts = texts_at(shape.first_own, shape.after_own)
  texts_at(row.first_own, row.first_own + row.kind.own_size, own_texts)
  local job, own = by_name(row.job), by_name(own_texts)
  row.queue, row.expires_ms, row.unique_ms = job.origin, whole_of(job.zs_expires), whole_of(job.zs_unique)
  row.at_front = string.find((job.zs or '') .. (own.flags or ''), 'f', 1, true)
  row.waits = string.find(job.zs or '', 'q', 1, true) and is_a(waiting_prefix .. row.id, 'list')
  row.rate_limit = limit_of(job.rate_limit_key, job.rate_limit_concurrency)
  local at = reason ~= 'dry' and find({row.id})[1]  -- a dry run cannot tell: the schedule may be replaced before
  local is_waiting = at and not at.recurring and run_key(row.id, at.due_ms) == row.key and is_a(row.key, 'hash')
  return row.rate_limit ~= false and queue_accepts(row.queue) and not is_waiting
end

local function push_again(row)
  redis.call('DEL', row.key)
  -- The deadline counts from the run's time, or from its push (t) if that was later: backfilled, retried, or late. It
  -- may have passed long ago: then no worker begins the run.
  local due_ms, deadline_ms = tonumber(row.due_ms), nil
  if row.expires_ms and due_ms then
    deadline_ms = math.max(due_ms, tonumber(row.kind.t_us) / 1000) + row.expires_ms
  end
  launch(row.run_id, row.queue, {fields = row.job, at_front = row.at_front, rate_limit = row.rate_limit,
    waits = row.waits, is_uncertain = true, deadline_ms = deadline_ms})
end

-- Add *runs* to those of schedule *id* that wait, and *held* to those that were pushed. Ids of runs are in the order of
-- their times.
local function wait_again(id, runs, held)
  local key, sorted, is_listed = waiting_prefix .. id, waiting_runs(id), {}
  for _, run in ipairs(sorted) do
    is_listed[run] = true
  end
  for _, run in ipairs(runs) do
    sorted[#sorted + 1] = not is_listed[run] and run or nil
  end
  table.sort(sorted)
  redis.call('DEL', key)
  for _, run in ipairs(sorted) do
    redis.call('RPUSH', key, run)
  end
  local pushed = {}
  for _, run in ipairs(pushed_runs(id)) do
    pushed[#pushed + 1], is_listed[run] = {run = run}, true
  end
  for _, run in ipairs(held) do
    pushed[#pushed + 1] = not is_listed[run] and {run = run} or nil
  end
  follow(id, 'queue', pushed)
end

-- Let the runs behind *run* pass: it was over, although RQ has it once more, and perhaps nobody will ever end it.
local function let_pass(id, run)
  redis.call('HSET', RQ_JOB .. run, 'zs_over', '1')
  local text, kept = redis.call('HGET', chains_key, id) or '', {}
  if string.find(text, '^queue ') then
    for _, one in ipairs(pushed_runs(id)) do
      kept[#kept + 1] = one ~= run and {run = one} or nil
    end
    follow(id, 'queue', kept, nil, text)
  end
end

local rows, wanted = rows_given(), {}
for _, row in ipairs(rows) do
  row.run_id, wanted[row.id] = row.id .. '-' .. row.run, true
  row.key = RQ_JOB .. row.run_id
  if row.place == 'over' then
    row.ending = waiting_still(row) or running_still(row.run_id, row.kind.note)
    row.place = row.ending and 'over' or 'again'
  else
    local is_pushable = row.place == 'skipped' or may_push(row)
    row.place = not make_way(row.run_id) and 'held' or is_pushable and row.place or 'refused'
  end
end
-- include lib/dry.lua
-- include lib/behind.lua
local entry, chained = log_restore(), {}
for _, row in ipairs(rows) do
  local ending = row.ending
  if row.place == 'open' then
    push_again(row)
  elseif ending and ending.ended_at then  -- no worker has it: its slot and its chain are free by its job's status
    end_executions(ending)
    redis.call('HSET', row.key, 'status', ending.status, 'ended_at', ending.ended_at)
  elseif ending then
    take_out(ending)
  elseif (row.place == 'held' or row.place == 'again') and is_a(row.key, 'hash') then
    redis.call('HSET', row.key, 'zs_uncertain', '1')  -- it may also wait in its queue: an older copy
  end
  if row.place == 'again' and is_a(row.key, 'hash') then
    let_pass(row.id, row.run_id)
  end
  if ending then
    redis.call('ZREM', deadlines_key, row.run_id)
  end
  if ending and ending.ended_at and ending.status == 'failed' then
    keep_failed(row.run_id, ending.queue, ending.failure_ttl)
  elseif ending then
    redis.call('PEXPIRE', row.key, REMAINS_MS)
  end
  if row.unique_ms and (row.place == 'open' or row.place == 'held') then
    guard(row.id, row.run_id, math.floor(tonumber(row.kind.t_us) / 1000) + row.unique_ms)
  end
  if row.waits and (row.place == 'open' or row.place == 'held') then
    local chain = chained[row.id] or {waiting = {}, pushed = {}}
    local list = (row.place == 'open' or waits_still(row.run_id)) and chain.waiting or chain.pushed
    list[#list + 1], chained[row.id] = row.run_id, chain
  end
end
for id, chain in pairs(chained) do
  wait_again(id, chain.waiting, chain.pushed)
end
push_all()
return {'OK', now_ms, entry, t, places}
