-- failed: end a run that no worker has any more, and keep a failed one as RQ keeps failed jobs (FailedJobRegistry.add).
--
-- USES   now_ms
-- GIVES  end_executions(one)  of a run with its wip_key and its members there
--        keep_failed(run, queue, failure_ttl)  after its end was written; a life of 0 s deletes it
function end_executions(one)
  for _, member in ipairs(one.members) do
    redis.call('ZREM', one.wip_key, member)
  end
  redis.call('DEL', RQ_EXECUTIONS .. one.run)
end

function keep_failed(run, queue, failure_ttl)
  local usual_ttl = '31536000'  -- RQ's own, in seconds
  local job_key, results_key = RQ_JOB .. run, RQ_RESULTS .. run
  local is_given = failure_ttl and string.find(failure_ttl, '^%-?%d%d?%d?%d?%d?%d?%d?%d?%d?%d?$')
  local ttl = is_given and failure_ttl or usual_ttl
  local score = ttl
  if ttl == '0' then
    redis.call('DEL', job_key, results_key)
    return
  elseif tonumber(ttl) > 0 then
    redis.call('EXPIRE', job_key, ttl)
    redis.call('EXPIRE', results_key, ttl)
    score = string.format('%.0f', math.floor(now_ms / 1000) + tonumber(ttl))
  else
    redis.call('PERSIST', job_key)
    redis.call('PERSIST', results_key)
  end
  redis.call('ZADD', RQ_FAILED .. queue, score, run)
end
