-- deadline: let a run expire that has not begun by a time.
--
-- USES   now_ms deadlines_key
-- GIVES  set_deadline(run, deadline_ms)
--
-- The deadline is the hash's time to live, which RQ's worker removes when it begins a job (PERSIST). The ZSET has the
-- reason for a missing hash. If it is of another type, the run expires all the same, and is recorded as lost.
-- include lib/untrusted.lua
local can_note_deadlines

function set_deadline(run, deadline_ms)
  local deadline = string.format('%.0f', deadline_ms)
  redis.call('HSET', RQ_JOB .. run, 'zs_deadline', deadline)
  redis.call('PEXPIRE', RQ_JOB .. run, string.format('%.0f', math.max(deadline_ms - now_ms, 1)))
  can_note_deadlines = can_note_deadlines or is_a(deadlines_key, 'zset')
  if can_note_deadlines then
    redis.call('ZADD', deadlines_key, deadline, run)
  end
end
