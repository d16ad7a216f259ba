-- withdraw: take back runs that must not run, or that a later run replaces.
--
-- USES   now_ms deadlines_key waiting_prefix
-- GIVES  plan_cancels(open, why)  for runs of a schedule in the form of job_of, with its id; it only reads
--        cancel(open)  then: the runs that are still open
--        ends  the rows of runs that were cancelled before they began, for an `end` entry
--        REPLACED  why, with a policy
-- include lib/rows.lua
-- include lib/waiting.lua
-- include lib/tell.lua
local MOST_WAITING = 2000  -- searched runs of a queue: this may happen every second
local WITHDRAWN = '{"ended":%.0f,"error":"%s"}'
REPLACED = 'its next occurrence came first (overlap=%s)'
ends = {}

function plan_cancels(open, why)
  for _, one in ipairs(open) do
    if one.status ~= 'started' and is_in_place(one, MOST_WAITING) then
      one.is_withdrawn = true
      add_row(ends, one.run, 'cancelled', string.format(WITHDRAWN, now_ms, why))
    end
  end
end

-- Cancel waiting runs, and ask the workers of started runs to stop them. No job is kept, unlike in cancel_run.lua: RQ
-- never cleans rq:canceled.
function cancel(open)
  local left = {}
  for _, one in ipairs(open) do
    if one.is_withdrawn then
      take_out(one)
      redis.call('PEXPIRE', RQ_JOB .. one.run, REMAINS_MS)
      if is_a(deadlines_key, 'zset') then
        redis.call('ZREM', deadlines_key, one.run)
      end
    else
      if one.status == 'started' then
        tell(one)
      end
      left[#left + 1] = one
    end
  end
  return left
end
