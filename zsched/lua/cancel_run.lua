-- cancel_run: keep a run from running, or ask its worker to stop it.
--
-- KEYS   @schedules op
-- ARGV   run_suffix      as in keys.py
--        by              who asks, for the log; or ''
--        id              of the schedule
--        run
--        seen            "<status> <enqueued_at>" of its job when look read it
--        facts           the record of its end (JSON, core/runs.py)
--        most_waiting    no search in a queue longer than that: it would block Redis
--        keep_op_ms      op holds the reply that long, and a call sent again gets it
-- RETURNS  OK, word, now ms, detail
--        words: cancelled, stopping (its worker was asked to stop it), over, UNKNOWN (RQ has no such job), WAITS (its
--        schedule has not fired), AGAIN (not as seen: look again), TAKEN (no longer where it waited, not started yet:
--        look again), DEAF (its worker, the detail, does not listen), BROKEN (another writer changed it), WRONGTYPE
-- LOGS   end: rows = run, cancelled, facts
--        stop: run, before its worker is asked to stop it
--
-- This is one step, so any later caller finds the run either unchanged or cancelled. Three callers may come at the same
-- time:
-- * A worker takes a run out of its list first, and writes `started` some ms later. In between nothing can keep the run
--   from running, and the worker would overwrite what is written here. So a run that is not where it should wait is
--   TAKEN.
-- * The tracker records only jobs that are still as it saw them (track.lua), so it does not record another end. Before
--   its archive has the entry of this cancellation, it may see the run cancelled. A field of the job (lib/waiting.lua)
--   says that this end is in the log. So the job stays for a while, also if the queue was too long for a search.
-- * Another caller finds `canceled`, which is over.
-- In a queue longer than most_waiting the run stays in the list, and its job loses its data (lib/waiting.lua).
-- Not guaranteed: in such a queue a worker may take the run at the same moment. RQ's own scheduler may have fetched a
-- run and not pushed it yet.
most_waiting, keep_op_ms = tonumber(most_waiting), tonumber(keep_op_ms)
-- include lib/op.lua
-- include lib/find.lua
-- include lib/waiting.lua
-- include lib/tell.lua

local OVER = {finished = true, failed = true, stopped = true, canceled = true}

local job_key = RQ_JOB .. run
local job = redis.pcall('HMGET', job_key, 'status', 'enqueued_at', 'origin', 'worker_name', 'zs_stop', 'rate_limit_key')
if job.err then
  return string.find(job.err, 'WRONGTYPE', 1, true) and answer({'OK', 'BROKEN', now_ms, '-'}) or job
end
local status, enqueued_at, queue, worker = word_of(job[1]), time_of(job[2]) or '', job[3] or '', job[4] or ''
if not status then
  return answer({'OK', redis.call('EXISTS', job_key) == 1 and 'BROKEN' or 'UNKNOWN', now_ms, '-'})
end
if OVER[status] then
  return answer({'OK', 'over', now_ms, status})
end
if status == 'started' then
  if worker == '' then
    return answer({'OK', 'BROKEN', now_ms, status})
  end
  local told_ms = tonumber(job[5] or '')
  if not told_ms or now_ms - told_ms >= TELL_AGAIN_MS then
    append('stop', {'run', run})
  end
  local listens = tell({run = run, worker = worker, told_ms = told_ms})
  return answer({'OK', listens and 'stopping' or 'DEAF', now_ms, line_of(worker)})
end
local at = status == 'scheduled' and find({id})[1]
if at and not at.recurring and id .. '-' .. at.due_ms .. run_suffix == run then
  return answer({'OK', 'WAITS', now_ms, '-'})
end
local one = {run = run, status = status, queue = queue, limit_key = job[6]}
local place_key, canceled_key = place_of(one), RQ_CANCELED .. queue
if not place_key or queue == '' then
  return answer({'OK', 'BROKEN', now_ms, status})
end
if not is_a(place_key, status == 'queued' and 'list' or 'zset') or not is_a(canceled_key, 'zset') then
  return answer({'OK', 'WRONGTYPE', now_ms, '-'})
end
if status .. ' ' .. enqueued_at ~= seen then
  return answer({'OK', 'AGAIN', now_ms, status})
end
if not is_in_place(one, most_waiting) then
  return answer({'OK', 'TAKEN', now_ms, status})
end

one.dependencies = dependencies_of(run)
append('end', {'rows', 1, run, 'cancelled', '', facts})
take_out(one)
if one.is_far then
  redis.call('PEXPIRE', job_key, REMAINS_MS)
else
  redis.call('ZADD', canceled_key, math.floor(now_ms / 1000), run)  -- as RQ's own Job.cancel does
end
return answer({'OK', 'cancelled', now_ms, '-'})
