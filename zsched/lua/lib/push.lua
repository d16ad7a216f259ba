-- push: put runs into their RQ queues.
--
-- USES   now_ms rq_queues_key
-- GIVES  is_listed  rq:queues is a set or free; workers do not need it
--        queue_accepts(queue)  its key is a list or free; and by its name, schedules could wait for it (capacity.lua)
--        enqueue(run, queue, at_front, ...)  for a run that has a job; ... are further texts of the hash
--        push(queue, run, at_front) back_of(queue)  if the hash has the status queued; the second is a list of runs
--        push_queues()  call it last
--
-- RQ's worker takes from the left. fire.lua and lib/launch.lua write hundreds of jobs at once, without enqueue.
-- include lib/iso.lua
-- include lib/untrusted.lua
local LONGEST_NAME = 1000  -- bytes; RQ's names are key names, and a writer of jobs may choose any
local backs, fronts, queue_types = {}, {}, {}  -- runs by queue; {queue, run}
is_listed = is_a(rq_queues_key, 'set')
local launched_at  -- now, as RQ writes times

function queue_accepts(queue)
  if not queue then
    return false
  end
  if not queue_types[queue] then
    queue_types[queue] = #queue <= LONGEST_NAME and redis.call('TYPE', RQ_QUEUE .. queue).ok or 'no name'
  end
  local type = queue_types[queue]
  return type == 'list' or type == 'none', type ~= 'no name' and string.find(queue, '^[^%s-]%S*$') ~= nil
end

function back_of(queue)
  backs[queue] = backs[queue] or {}
  return backs[queue]
end

function push(queue, run, at_front)
  local back = back_of(queue)
  if at_front then
    fronts[#fronts + 1] = {queue, run}
  else
    back[#back + 1] = run
  end
end

function enqueue(run, queue, at_front, ...)
  launched_at = launched_at or iso(now_ms)
  redis.call('HSET', RQ_JOB .. run, 'status', 'queued', 'enqueued_at', launched_at, ...)
  push(queue, run, at_front)
end

-- Of the runs at the front, the oldest is pushed last, so it is first.
function push_queues()
  for queue, back in pairs(backs) do
    if is_listed then
      redis.call('SADD', rq_queues_key, RQ_QUEUE .. queue)
    end
    if back[1] then
      redis.call('RPUSH', RQ_QUEUE .. queue, unpack(back))
    end
  end
  for i = #fronts, 1, -1 do
    redis.call('LPUSH', RQ_QUEUE .. fronts[i][1], fronts[i][2])
  end
end
