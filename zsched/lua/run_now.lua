-- run_now: push runs of a schedule at once: a run for now, or runs for occurrences that passed without one.
--
-- KEYS   @schedules schedule template rq_queues rq_limits op deadlines
-- ARGV   schedule_prefix run_suffix    as in keys.py
--        by              who asks, for the log; or ''
--        id
--        seen_version    push runs only of a schedule of this version; '' in any case
--        ...             no rows: a run for now. Or two texts per occurrence of a recurring schedule: nominal ms; once,
--                        or again if it ran and shall run again. No occurrence comes twice
-- RETURNS  OK, word, now ms, then after `fired` per run: its id, or - if the run of an occurrence exists (once) or is
--          open (again)
--        words: fired NOTFOUND CHANGED:<version> WRONGTYPE QUARANTINED; SIGNED: a one-shot has a signature, which is
--        for its time to come; enqueue.lua pushes it with another
-- LOGS   run_now: id, run, last = 1 when the schedule is recurring and goes on
--        backfill: id, runs = run ids by spaces
--
-- For now: a one-shot runs now instead of at its time, and keeps the run id of that time. A recurring schedule gets an
-- extra run, its last. A paused or ended schedule stays paused or ended.
-- For occurrences: a run has the id that its occurrence would have had. A run of `again` has an extra id, numbered by
-- its entry in the log, as in retry. Runs go to the back of their queue. The schedule keeps its last run.
-- A recurring schedule keeps its next occurrence. Its overlap policy and catch_up do not apply, as somebody asked.
-- include lib/now.lua
-- include lib/version.lua
-- include lib/status.lua
-- include lib/pushed.lua

local FIELDS = {'data', 'status', 'zs', 'zs_sig', 'origin', 'zs_expires', 'rate_limit_key', 'rate_limit_concurrency'}
local at, is_backfill, job = find({id})[1], ROWS <= #ARGV, {}

-- Read the job or template. Return the word of a refusal, or nil.
local function refusal()
  if not at then
    return 'NOTFOUND'
  elseif at.recurring and not is_a(schedule_key, 'hash') then
    return 'WRONGTYPE'
  elseif seen_version ~= '' and version_of(id, at) ~= seen_version or is_backfill and not at.recurring then
    return 'CHANGED:' .. version_of(id, at)
  end
  local values = redis.pcall('HMGET', at.recurring and template_key or run_key(id, at.due_ms), unpack(FIELDS))
  for n, name in ipairs(FIELDS) do
    job[name] = values[n] or nil
  end
  if not job.data or not at.recurring and job.status ~= 'scheduled' or is_backfill and at.place == 'quarantine' then
    return 'QUARANTINED'
  elseif not order('', job) then
    return 'WRONGTYPE'
  elseif not at.recurring and job.zs_sig and tonumber(at.due_ms) > now_ms then
    return 'SIGNED'
  end
end

-- Return the run id of an occurrence, or nothing if it gets no run.
local function new_run(nominal_ms, how)
  local plain = id .. '-' .. nominal_ms .. run_suffix
  if how == 'once' then
    return make_way(plain) and plain or nil
  elseif not is_under_way(redis.pcall('HGET', RQ_JOB .. plain, 'status')) then
    return free_run(id, tonumber(nominal_ms), seq + 1)
  end
end

local word = refusal()
if word then
  return answer({'OK', word, now_ms})
end
local reply, runs, orders = {'OK', 'fired', now_ms}, {}, {}
for i = ROWS, #ARGV, 2 do
  local run = new_run(ARGV[i], ARGV[i + 1])
  reply[#reply + 1] = run or '-'
  runs[#runs + 1] = run
end
if not is_backfill then  -- the plain id of a recurring schedule is for an occurrence
  runs[1] = at.recurring and free_run(id, now_ms, 1) or id .. '-' .. at.due_ms .. run_suffix
  reply[4] = runs[1]
end
for n, run in ipairs(runs) do
  orders[n] = order(run, job, not is_backfill and string.find(job.zs or '', 'f', 1, true))
  orders[n].template = at.recurring and template_key
end

if not is_backfill then
  append('run_now', {'id', id, 'run', runs[1], 'last', at.recurring and '1' or '0'})
elseif #runs > 0 then
  append('backfill', {'id', id, 'runs', table.concat(runs, ' ')})
end
if not at.recurring then
  leave(id, at)
elseif not is_backfill then
  change_progress(id, {last = runs[1]})
end
push_now(orders)
return answer(reply)
