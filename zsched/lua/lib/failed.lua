-- failed: keep a failed run as RQ keeps failed jobs (FailedJobRegistry.add).
--
-- USES   now_ms
-- GIVES  keep_failed(run, queue, failure_ttl)  after its end was written; a life of 0 s deletes it
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
