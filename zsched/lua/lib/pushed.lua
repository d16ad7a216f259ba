-- pushed: decide whether the hash at a run's key may belong to a pushed run.
--
-- GIVES  OF_RUN  fields for HMGET
--        is_pushed(job)  for their values
--        make_way(run)  true if the run may be written at its key: the key does not exist, or its hash cannot belong to
--          a pushed run
--
-- Any program with write access to rq:job:* can make a hash of a run that is not due yet. Such a hash must not keep the
-- run from being pushed. A run that was pushed must never be pushed again, in this history or an earlier one. So a hash
-- may be replaced only if it has no field that zsched writes with a push, and no field that RQ's workers write. Workers
-- also write into a hash that was deleted during the run. The status `scheduled` or `created` does not count as a push.
-- Any other status does, since a later RQ may know it. The auditor alarms on a hash that looks pushed and never was.
OF_RUN = {'status', 'enqueued_at', 'started_at', 'ended_at', 'last_heartbeat', 'worker_name'}
local IS_NO_PUSH = {[''] = true, scheduled = true, created = true}

function is_pushed(job)
  if job.err then  -- not a hash: RQ and zsched write nothing else at this key
    return false
  elseif not IS_NO_PUSH[job[1] or ''] then
    return true
  end
  for n = 2, #OF_RUN do
    if (job[n] or '') ~= '' then  -- RQ saves '' for an unknown time
      return true
    end
  end
  return false
end

function make_way(run)
  local key = RQ_JOB .. run
  return redis.call('EXISTS', key) == 0 or not is_pushed(redis.pcall('HMGET', key, unpack(OF_RUN)))
end
