-- queues: collect runs by RQ queue, then push them.
--
-- USES   rq_queues_key is_a()
-- GIVES  is_listed, queue_accepts(queue), push(queue, run, at_front), push_all()
--
-- RQ's own shape: rq:queues is a SET of full keys, a worker takes from the left, RPUSH is the back. Workers do not need
-- rq:queues: if it is of a wrong type, is_listed is false, and runs are pushed without it.
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
