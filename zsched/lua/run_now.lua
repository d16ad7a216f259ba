-- run_now: push a run of a schedule at once.
--
-- KEYS   @schedules schedule template rq_queues rq_limits op deadlines
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        id
--        seen_version    run only a schedule of this version; '' in any case
--        keep_op_ms      op holds the reply that long, and a call sent again gets it
-- RETURNS  OK, word, now ms, run id or -
--        words: fired NOTFOUND CHANGED:<version> WRONGTYPE QUARANTINED; SIGNED: a one-shot has a signature, which is
--        for its time to come; enqueue.lua pushes it with another
-- LOGS   run_now: id, run, last = 1 when the schedule is recurring and goes on
--
-- A one-shot runs now instead of at its time, and keeps the run id of that time. A recurring schedule gets an extra
-- run, and keeps its next occurrence. A paused or ended schedule stays paused or ended. The run's deadline counts from
-- now. The overlap policy does not apply, as somebody asked for this run.
keep_op_ms = tonumber(keep_op_ms)
-- include lib/op.lua
-- include lib/place.lua
-- include lib/launch.lua
-- include lib/version.lua

local at = find({id})[1]
if not at then
  return answer({'OK', 'NOTFOUND', now_ms, '-'})
elseif seen_version ~= '' and version_of(id, at) ~= seen_version then
  return answer({'OK', 'CHANGED:' .. version_of(id, at), now_ms, '-'})
end
local source, run = template_key, nil
if at.recurring then
  run = free_run(id, now_ms, 1)  -- the plain id is for an occurrence
else
  run = id .. '-' .. at.due_ms .. run_suffix
  source = run_key(id, at.due_ms)
end
local job = redis.pcall('HMGET', source, 'data', 'origin', 'status', 'zs', 'zs_expires', 'rate_limit_key',
  'rate_limit_concurrency', 'zs_sig')
local flags = at.recurring and redis.pcall('HGET', schedule_key, 'flags') or job[4]
if type(flags) == 'table' then
  return answer({'OK', 'WRONGTYPE', now_ms, '-'})
end
if job.err or not job[1] or not at.recurring and job[3] ~= 'scheduled' then
  return answer({'OK', 'QUARANTINED', now_ms, '-'})
end
local rate_limit = limit_of(job[6], job[7])
if rate_limit == false or not queue_accepts(job[2]) then
  return answer({'OK', 'WRONGTYPE', now_ms, '-'})
elseif not at.recurring and job[8] and tonumber(at.due_ms) > now_ms then
  return answer({'OK', 'SIGNED', now_ms, '-'})
end

local queue, expires_ms = job[2], whole_of(job[5])
local at_front = type(flags) == 'string' and string.find(flags, 'f', 1, true)
local deadline_ms = expires_ms and now_ms + expires_ms
append('run_now', {'id', id, 'run', run, 'last', at.recurring and '1' or '0'})
if at.recurring then
  launch(run, queue, {template = template_key, at_front = at_front, rate_limit = rate_limit,
    deadline_ms = deadline_ms})
  redis.call('HSET', schedule_key, 'last', run)
else
  leave(id, at)
  requeue(run, queue, at_front, rate_limit)
  if deadline_ms then
    set_deadline(run, deadline_ms)
  end
end
push_all()
return answer({'OK', 'fired', now_ms, run})
