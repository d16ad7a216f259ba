-- launch: make the job of a run, with its deadline, and push it at once or when its rate limit has a slot.
--
-- USES   now_ms
-- GIVES  launch(run, queue, job)  *job* may have: `key`, the key of the job; `template`, the key of the hash to copy
--          for it, or `fields`, the texts of the hash, if the run has no job, or one that may be replaced; rate_limit,
--          as limit_of returns it; at_front; deadline_ms; is_uncertain; and `waits`: then it is not pushed, and
--          lib/overlap.lua puts it into its list
-- include lib/deadline.lua
-- include lib/slots.lua
local launched_at  -- now, as RQ writes times
local NO_FIELDS = {}

function launch(run, queue, job)
  launched_at = launched_at or iso(now_ms)
  local job_key = job.key or RQ_JOB .. run
  if job.template then
    redis.call('COPY', job.template, job_key, 'REPLACE')  -- see lib/pushed.lua
  end
  if job.waits then
    redis.call('HSET', job_key, 'status', 'deferred', 'created_at', launched_at, unpack(job.fields or NO_FIELDS))
  elseif job.template and not job.rate_limit then  -- quicker: a template has the status `queued`
    redis.call('HSET', job_key, 'created_at', launched_at, 'enqueued_at', launched_at)
    push(queue, run, job.at_front)
  elseif job.template or job.fields then
    queue_run(run, queue, job.at_front, job.rate_limit, 'created_at', launched_at, unpack(job.fields or NO_FIELDS))
  else
    queue_run(run, queue, job.at_front, job.rate_limit)
  end
  if job.is_uncertain then
    redis.call('HSET', job_key, 'zs_uncertain', '1')
  end
  if job.deadline_ms then
    set_deadline(run, job.deadline_ms)
  end
end
