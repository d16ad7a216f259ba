-- cancel_run: keep a run from running, or ask its worker to stop it.
--
-- KEYS   @schedules op
-- ARGV   run_suffix      as in keys.py
--        id              its schedule's
--        run
--        seen            what look saw of its job: "<status> <enqueued_at>"
--        facts           what is recorded of its end, made of that (JSON, core/runs.py)
--        most_waiting    in a queue longer than that it is not looked for: that would keep everybody waiting
--        keep_op_ms      op holds the reply that long, and a call sent again gets it
-- RETURNS  OK, word, now ms, detail
--        words: cancelled, stopping (its worker was told), over, UNKNOWN (RQ has no such job), WAITS (it is a
--        schedule that has not fired), AGAIN (not as seen: look again), TAKEN (on its way out of where it waited: look
--        again), DEAF (its worker, the detail, does not listen), BROKEN (what another writer changed), WRONGTYPE
-- LOGS   end: rows = run, cancelled, facts
--
-- One step, so any later caller finds the run either unchanged or cancelled. Three callers may come at the same time:
-- * A worker. It takes a run out of its list first, and says `started` some ms later; in between nothing can keep it
--   from running, and it would overwrite what is written here. So a run that is not where it should wait is TAKEN.
-- * The tracker. It writes down only what is still as it was seen (track.lua), so it cannot have seen this run open
--   and record something else. Until its archive has the entry of this one it may see the run cancelled: that this is
--   told stands in its job (lib/waiting.lua). So the job stays here for a while, also of a run that is not looked for.
-- * Another caller: it finds `canceled`, which is over.
-- In a queue longer than most_waiting the run stays in the list, and its job loses its data (lib/waiting.lua). Not
-- guaranteed there: that a worker did not take it in that very moment. Nor of a run that RQ's own scheduler has fetched
-- and not yet pushed.
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
  local is_told = tell({run = run, worker = worker, told_ms = tonumber(job[5] or '')})
  return answer({'OK', is_told and 'stopping' or 'DEAF', now_ms, line_of(worker)})
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
