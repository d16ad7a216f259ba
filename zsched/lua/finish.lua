-- finish: end runs that are over, and that RQ has once more, because Redis went back.
--
-- KEYS   meta log deadlines
-- ARGV   by              who asks, for the log; or ''
--        seen_entry seen_t hold_for_ms reason archive names is_forced row_count   as in restore
--        ...             rows as in restore, with the place `over` and without texts of a job or schedule
-- RETURNS  OK, now ms, the entry's id and t (- and 0 if dry), the place of each row as logged  |  AGAIN, now ms
--          |  OTHER, now ms
-- LOGS   restore: as in restore; `over` is `again` if the run does not wait any more, or others wait for it, or a
--          worker began it once more
--
-- The run is taken out of its queue. A worker may have taken it before: such a run (`again`) is marked uncertain. So is
-- a run that others wait for: RQ releases them when it ends. If Redis went back to the middle of the run, its job says
-- that a worker has it, and that is not so any more: the note is "<started_at> <status> <ended_at>", the first as the
-- job has it, the others its end. Then that end is written into the job, unless a worker began it since.
hold_for_ms, row_count = tonumber(hold_for_ms), tonumber(row_count)
-- include lib/restored.lua
-- include lib/waiting.lua
-- include lib/failed.lua

local MOST_WAITING = 50000  -- runs of a queue to search: more would block Redis

-- Return the run as take_out needs it; nil if it does not wait, or others wait for it.
local function waiting_still(run)
  local job = redis.pcall('HMGET', RQ_JOB .. run, 'status', 'origin', 'rate_limit_key')
  if job.err then
    return nil
  end
  local one = {run = run, status = word_of(job[1]), queue = job[2] or '', limit_key = job[3]}
  if redis.call('EXISTS', dependents_key(run)) == 0 and is_in_place(one, MOST_WAITING) then
    one.dependencies = dependencies_of(run)
    return one
  end
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

local runs, ends, places, wanted, at = {}, {}, {}, {}, ROWS
for n = 1, row_count do
  local row = row_at(at)
  local run = row.id .. '-' .. row.run
  runs[n], ends[n], wanted[row.id] = run, waiting_still(run) or running_still(run, row.note) or false, true
  row.place, at = ends[n] and 'over' or 'again', row.after
  places[n] = row.place
  note_place(row)
end
if reason == 'dry' then
  return {'OK', now_ms, '-', '0', places}
end
-- include lib/behind.lua
local entry = log_restore()
for n, run in ipairs(runs) do
  local one, job_key = ends[n], RQ_JOB .. run
  if one and one.ended_at then
    end_as_known(one)
  elseif one then
    take_out(one)
    redis.call('PEXPIRE', job_key, REMAINS_MS)
  elseif is_a(job_key, 'hash') then
    redis.call('HSET', job_key, 'zs_uncertain', '1')  -- it may also wait in its queue: an older copy
  end
  if one and is_a(deadlines_key, 'zset') then
    redis.call('ZREM', deadlines_key, run)
  end
end
return {'OK', now_ms, entry, t, places}
