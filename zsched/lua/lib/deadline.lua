-- deadline: a run that has not begun by then does not run.
--
-- USES   now_ms deadlines_key
-- GIVES  set_deadline(run, deadline_ms)
--
-- RQ's worker passes over a job whose hash is gone, and takes the time to live away when it begins with one
-- (Job.perform, PERSIST). The time is relative, so that it is this server's and not a test's. Where the hash was, the
-- ZSET of deadlines says why it is gone, until the run's end is recorded.
local function set_deadline(run, deadline_ms)
  local deadline = string.format('%.0f', deadline_ms)
  redis.call('HSET', 'rq:job:' .. run, 'zs_deadline', deadline)
  redis.call('PEXPIRE', 'rq:job:' .. run, string.format('%.0f', math.max(deadline_ms - now_ms, 1)))
  redis.call('ZADD', deadlines_key, deadline, run)
end
