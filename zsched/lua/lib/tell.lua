-- tell: ask a run's worker to stop it.
--
-- USES   now_ms
-- GIVES  tell(one), of a run with its worker and told_ms, the number in its job's zs_stop: whether the worker knows
-- include lib/rq.lua
local TELL_AGAIN_MS = 10000  -- see tell

-- zs_stop is when it was told. Not again for a while: an RQ worker that is told so a second time when it has just
-- killed its work horse, and not yet filed the run, kills itself (Worker.kill_horse with no horse: 2.12, 3.0).
local function tell(one)
  if one.worker == '' then
    return false
  elseif one.told_ms and now_ms - one.told_ms < TELL_AGAIN_MS then
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
