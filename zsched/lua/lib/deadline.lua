-- deadline: a run that has not begun by then does not run.
--
-- USES   now_ms deadlines_key is_a()
-- GIVES  set_deadline(run, deadline_ms)
--
-- RQ's worker passes over a job whose hash is gone, and takes the time to live away when it begins with one
-- (Job.perform, PERSIST). The time is relative, so that it is this server's and not a test's. Where the hash was, the
-- ZSET of deadlines says why it is gone, until the run's end is recorded. Where that key is of another type the run
-- expires all the same, and is recorded as lost.
local can_note_deadlines

local function set_deadline(run, deadline_ms)
  local deadline = string.format('%.0f', deadline_ms)
  redis.call('HSET', RQ_JOB .. run, 'zs_deadline', deadline)
  redis.call('PEXPIRE', RQ_JOB .. run, string.format('%.0f', math.max(deadline_ms - now_ms, 1)))
  if can_note_deadlines == nil then
    can_note_deadlines = is_a(deadlines_key, 'zset')
  end
  if can_note_deadlines then
    redis.call('ZADD', deadlines_key, deadline, run)
  end
end
