-- deadline: let a run expire that has not begun by a time.
--
-- USES   now_ms deadlines_key
-- GIVES  set_deadline(run, deadline_ms)
--
-- The deadline is the hash's time to live, which RQ's worker removes when it begins a job (PERSIST). The ZSET has the
-- reason for a missing hash.
function set_deadline(run, deadline_ms)
  local deadline = string.format('%.0f', deadline_ms)
  redis.call('HSET', RQ_JOB .. run, 'zs_deadline', deadline)
  redis.call('PEXPIRE', RQ_JOB .. run, string.format('%.0f', math.max(deadline_ms - now_ms, 1)))
  redis.call('ZADD', deadlines_key, deadline, run)
end
