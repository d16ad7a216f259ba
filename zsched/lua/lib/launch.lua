-- launch: push a run to its RQ queue: its job's hash, its deadline and the push.
--
-- USES   now_ms rq_queues_key, and of set_deadline deadlines_key
-- GIVES  is_listed, queue_accepts(queue), push(queue, run, at_front), push_all(), which ends it; what lib/rq.lua gives
--        set_deadline(run, deadline_ms): if it has not begun by then it does not run
--        launch(run, queue, job), of a run that has no job, or one that makes way. What *job* may have: `template`, the
--        key that its hash is copied from, or `fields`, that hash's texts; at_front; deadline_ms; is_uncertain; and
--        `before`, the runs that it waits for: then it is not pushed, and lib/overlap.lua makes it wait
--        requeue(run, queue, at_front, ...), of a run whose job is there; what follows are further texts of the hash
--
-- RQ's own shape: rq:queues is a SET of full keys, a worker takes from the left, RPUSH is the back. Workers do not need
-- rq:queues: if it is of a wrong type, is_listed is false, and runs are pushed without it. fire.lua does what requeue
-- does by itself: it takes hundreds at once.
--
-- RQ's worker passes over a job whose hash is gone, and takes the time to live away when it begins with one (PERSIST:
-- RQ 3 in the step that says `started`, RQ 2 a moment later in Job.perform). The time is relative, so that it is this
-- server's and not a test's. Where the hash was, the ZSET of deadlines says why it is gone, until the run's end is
-- recorded. Where that key is of another type the run expires all the same, and is recorded as lost.
-- include lib/rq.lua
local LONGEST_NAME = 1000  -- bytes; RQ's names are key names, and a writer of jobs may choose any
local queues, queue_types = {}, {}
local is_listed = is_a(rq_queues_key, 'set')

local function queue_accepts(queue)
  if not queue then
    return false
  end
  if not queue_types[queue] then
    queue_types[queue] = #queue <= LONGEST_NAME and redis.call('TYPE', RQ_QUEUE .. queue).ok or 'no name'
  end
  return queue_types[queue] == 'list' or queue_types[queue] == 'none'
end

local function push(queue, run, at_front)
  local waiting = queues[queue]
  if not waiting then
    waiting = {back = {}, front = {}}
    queues[queue] = waiting
  end
  local side = at_front and waiting.front or waiting.back
  side[#side + 1] = run
end

-- Those at the front keep their order: the oldest is pushed last and stands first.
local function push_all()
  for queue, waiting in pairs(queues) do
    local key = RQ_QUEUE .. queue
    if is_listed then
      redis.call('SADD', rq_queues_key, key)
    end
    if #waiting.back > 0 then
      redis.call('RPUSH', key, unpack(waiting.back))
    end
    for i = #waiting.front, 1, -1 do
      redis.call('LPUSH', key, waiting.front[i])
    end
  end
end

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

local NO_FIELDS = {}
local launched_at  -- now, as RQ writes times

local function requeue(run, queue, at_front, ...)
  launched_at = launched_at or iso(now_ms)
  redis.call('HSET', RQ_JOB .. run, 'status', 'queued', 'enqueued_at', launched_at, ...)
  push(queue, run, at_front)
end

local function launch(run, queue, job)
  launched_at = launched_at or iso(now_ms)
  local job_key = RQ_JOB .. run
  if job.template then
    redis.call('COPY', job.template, job_key, 'REPLACE')  -- see lib/pushed.lua
  end
  if job.before then
    redis.call('HSET', job_key, 'created_at', launched_at)
  else
    -- Its status, too: a template that was put back after a loss has none.
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
