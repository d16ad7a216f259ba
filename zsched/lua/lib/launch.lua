-- launch: let a run go to its RQ queue: its job's hash, its deadline and its push.
--
-- USES   now_ms iso(), and the names of lib/queues.lua and, of launch, lib/deadline.lua
-- GIVES  launch(run, queue, job), of a run that has no job, or one that makes way. What *job* may have: `template`, the
--        key that its hash is copied from, or `fields`, that hash's texts; at_front; deadline_ms; is_uncertain; and
--        `before`, the runs that it waits for: then it is not pushed, and lib/overlap.lua makes it wait
--        requeue(run, queue, at_front, ...), of a run whose job is there; what follows are further texts of the hash
--
-- push_all ends it. fire.lua does as requeue does by itself: it takes hundreds at once.
local NO_FIELDS = {}
local launched_at  -- now, as RQ writes times

local function requeue(run, queue, at_front, ...)
  launched_at = launched_at or iso(now_ms)
  redis.call('HSET', RQ_JOB .. run, 'status', 'queued', 'enqueued_at', launched_at, ...)
  push(queue, run, at_front)
end

local function launch(run, queue, job)
  launched_at = launched_at or iso(now_ms)
  if job.template then
    redis.call('COPY', job.template, RQ_JOB .. run, 'REPLACE')  -- see lib/pushed.lua
  end
  if job.before then
    redis.call('HSET', RQ_JOB .. run, 'created_at', launched_at)
  else
    -- Its status, too: a template that was put back after a loss has none.
    redis.call('HSET', RQ_JOB .. run, 'status', 'queued', 'created_at', launched_at, 'enqueued_at', launched_at,
      unpack(job.fields or NO_FIELDS))
    push(queue, run, job.at_front)
  end
  if job.is_uncertain then
    redis.call('HSET', RQ_JOB .. run, 'zs_uncertain', '1')
  end
  if job.deadline_ms then
    set_deadline(run, job.deadline_ms)
  end
end
