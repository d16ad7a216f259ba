-- launch: make the job of a run, with its deadline, and push it at once or when its rate limit has a slot.
--
-- USES   now_ms deadlines_key
-- GIVES  set_deadline(run, deadline_ms)  a run that has not begun by then does not run
--        can_note_deadlines  after set_deadline: false if the key of deadlines is of another type
--        launch(run, queue, job)  for a run without a job, or with a job that may be replaced. *job* may have:
--          `template`, the key that its hash is copied from; is_new, if the run's key does not exist; or `fields`, the
--          texts of the hash; rate_limit, as limit_of returns it; at_front; deadline_ms; is_uncertain; and `before`,
--          the runs that it waits for: then it is not pushed, and lib/overlap.lua makes it wait
--        requeue(run, queue, at_front, rate_limit, ...)  for a run that has a job; ... are further texts of the hash
--        push_all()  call it last
--
-- The deadline is the hash's time to live. RQ's worker skips a job without a hash. It removes the time to live when it
-- begins a job (PERSIST: RQ 3 in the step that writes `started`, RQ 2 a moment later in Job.perform). The time is
-- relative, so it counts by the server's clock and not by a test's. The ZSET of deadlines has the reason for a missing
-- hash, until the run's end is recorded. If that key is of another type, the run expires all the same, and is recorded
-- as lost.
-- include lib/slots.lua
local launched_at  -- now, as RQ writes times

function set_deadline(run, deadline_ms)
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

function requeue(run, queue, at_front, rate_limit, ...)
  if rate_limit then
    hold_back(run, queue, rate_limit, at_front, ...)
  else
    enqueue(run, queue, at_front, ...)
  end
end

local NO_FIELDS = {}

function launch(run, queue, job)
  launched_at = launched_at or iso(now_ms)
  local job_key = RQ_JOB .. run
  if job.template and job.is_new then
    redis.call('COPY', job.template, job_key)
  elseif job.template then
    redis.call('COPY', job.template, job_key, 'REPLACE')  -- see lib/pushed.lua
  end
  if job.before then
    redis.call('HSET', job_key, 'created_at', launched_at)
  elseif job.rate_limit then
    hold_back(run, queue, job.rate_limit, job.at_front, 'created_at', launched_at, unpack(job.fields or NO_FIELDS))
  else
    -- The status, too: a template that was put back after a loss has no status.
    redis.call('HSET', job_key, 'status', 'queued', 'created_at', launched_at, 'enqueued_at', launched_at,
      unpack(job.fields or NO_FIELDS))
    push(queue, run, job.at_front)
  end
  if job.is_uncertain then
    redis.call('HSET', job_key, 'zs_uncertain', '1')
  end
  if job.deadline_ms then
    set_deadline(run, job.deadline_ms)
  end
end

function push_all()
  fill_slots()
  push_queues()
end
