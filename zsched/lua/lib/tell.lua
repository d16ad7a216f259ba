-- tell: ask a run's worker to stop it.
--
-- USES   now_ms
-- GIVES  tell(one)  for a run with its worker and told_ms, the number in its job's zs_stop: true if the worker listens
--        is_told(one)  its worker was asked just now, so tell does not ask again
local TELL_AGAIN_MS = 10000  -- see tell

function is_told(one)
  return one.told_ms and now_ms - one.told_ms < TELL_AGAIN_MS
end

-- zs_stop is the time of the request. It is not repeated for a while: a worker that gets a second request just after it
-- killed its work horse, and before it filed the run, kills itself (Worker.kill_horse without a horse: RQ 2.12, 3.0).
function tell(one)
  if one.worker == '' then
    return false
  elseif is_told(one) then
    return true
  end
  local job_key, command = RQ_JOB .. one.run, '{"command": "stop-job", "job_id": "' .. one.run .. '"}'
  redis.call('HSET', job_key, 'zs_stop', string.format('%.0f', now_ms))
  local heard = redis.pcall('PUBLISH', RQ_PUBSUB .. one.worker, command)
  if type(heard) ~= 'number' or heard == 0 then
    redis.call('HDEL', job_key, 'zs_stop')
    return false
  end
  return true
end
