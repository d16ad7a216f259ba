-- push: put runs into their RQ queues.
--
-- USES   now_ms rq_queues_key
-- GIVES  is_listed
--        queue_accepts(queue)  whether its key is a list or free, and whether schedules could wait for it by its name
--          if it is not (lib/room.lua)
--        enqueue(run, queue, at_front, ...)  for a run that has a job; ... are further texts of the hash
--        push(queue, run, at_front)  if the hash has the status queued already
--        back_of(queue)  a list to which such runs may be added
--        push_queues()  call it last
--
-- RQ's own shape: rq:queues is a SET of full keys, a worker takes from the left, RPUSH is the back. Workers do not need
-- rq:queues: if it is of a wrong type, is_listed is false, and runs are pushed without it. fire.lua and lib/launch.lua
-- do not use enqueue: they write hundreds of jobs at once.
-- include lib/rq.lua
-- include lib/untrusted.lua
local LONGEST_NAME = 1000  -- bytes; RQ's names are key names, and a writer of jobs may choose any
local queues, queue_types = {}, {}
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

local function waiting_of(queue)
  queues[queue] = queues[queue] or {back = {}, front = {}}
  return queues[queue]
end

function back_of(queue)
  return waiting_of(queue).back
end

function push(queue, run, at_front)
  local side = at_front and waiting_of(queue).front or back_of(queue)
  side[#side + 1] = run
end

function enqueue(run, queue, at_front, ...)
  launched_at = launched_at or iso(now_ms)
  redis.call('HSET', RQ_JOB .. run, 'status', 'queued', 'enqueued_at', launched_at, ...)
  push(queue, run, at_front)
end

-- Runs at the front keep their order: the oldest is pushed last, so it is first.
function push_queues()
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
