-- pushed: decide whether the hash at a run's key may belong to a pushed run.
--
-- GIVES  OF_RUN, fields to HMGET; is_pushed(job), of their values; make_way(run) -> true when the run may be written at
--        its key: there is nothing, or a hash that nobody can have pushed
--
-- Whoever may write rq:job:* can make a hash of a run that is not due yet. Such a hash must not keep the run from being
-- pushed. A run that was pushed must never be pushed again, in this history or an earlier one. So a hash may be
-- replaced only if it has no field that zsched writes with a push, and none that RQ's workers write, also into a hash
-- that was deleted while the run was going on. `scheduled` and `created` are no push. Any other status counts as a
-- push, since a later RQ may know it. The auditor alarms on a hash that looks pushed and never was.
-- include lib/rq.lua
local OF_RUN = {'status', 'enqueued_at', 'started_at', 'ended_at', 'last_heartbeat', 'worker_name'}
local IS_NO_PUSH = {[''] = true, scheduled = true, created = true}

local function is_pushed(job)
  if job.err then  -- no hash: RQ and zsched write nothing else there
    return false
  elseif not IS_NO_PUSH[job[1] or ''] then
    return true
  end
  for n = 2, #OF_RUN do
    if (job[n] or '') ~= '' then  -- RQ saves '' for a time that is not known
      return true
    end
  end
  return false
end

local function make_way(run)
  local key = RQ_JOB .. run
  return redis.call('EXISTS', key) == 0 or not is_pushed(redis.pcall('HMGET', key, unpack(OF_RUN)))
end
