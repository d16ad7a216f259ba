-- slots: RQ's rate limits (RQ 3): so many jobs may be queued or running as a limit has slots; others wait for one.
--
-- USES   rq_limits_key now_ms
-- GIVES  limit_of(key, most)  for a job's fields rate_limit_key and rate_limit_concurrency: {key, most, allowed_key,
--          waiting_key}; nil if it has no limit; false, and the key with its type, if that is wrong
--        queue_run(run, queue, at_front, limit, ...)  as enqueue, but a run without a slot of its limit waits
--        fill(limit)  queue the jobs that wait longest, while there are slots
--        push_all()  call it last
--
-- States and keys are RQ's (rate_limit.py, RateLimitRegistry). Its worker frees a slot when it ends a job, and
-- free_slots.lua the slots of workers that died. A run that comes back into its queue keeps its slot.
-- include lib/push.lua
local left = 1000  -- waiting jobs to queue in this script; the others when a slot is freed, or a second later
local touched, count_held, wrong_keys = {}, 0, {}  -- touched: limits by their keys

function limit_of(key, most)
  most = whole_of(most)
  if not key or key == '' or not most or most < 1 then
    return nil
  end
  local allowed_key, waiting_key = RQ_RL .. key .. ':allowed', RQ_RL .. key .. ':rate_limited'
  if wrong_keys[key] == nil then
    wrong_keys[key] = false
    for name, kind in pairs({[rq_limits_key] = 'set', [RQ_RL .. key] = 'hash', [allowed_key] = 'zset',
      [waiting_key] = 'zset'}) do
      wrong_keys[key] = not is_a(name, kind) and name or wrong_keys[key]
    end
  end
  if wrong_keys[key] then
    return false, name_of(wrong_keys[key]) .. ' (' .. redis.call('TYPE', wrong_keys[key]).ok .. ')'
  end
  return {key = key, most = most, allowed_key = allowed_key, waiting_key = waiting_key}
end

-- RQ's times are whole seconds; these have a fraction, so that jobs of the same second keep their order.
function queue_run(run, queue, at_front, limit, ...)
  if limit then
    touched[limit.key] = limit
  end
  if not limit or redis.call('ZSCORE', limit.allowed_key, run) then
    enqueue(run, queue, at_front, ...)
    return
  end
  redis.call('HSET', RQ_JOB .. run, 'status', 'rate_limited', ...)
  if at_front then
    redis.call('HSET', RQ_JOB .. run, 'enqueue_at_front', '1')
  end
  redis.call('ZADD', limit.waiting_key, string.format('%.6f', now_ms / 1000 + count_held / 1000000), run)
  count_held = count_held + 1
end

-- A job that is gone, or no longer waits, is left out, as RQ does.
function fill(limit)
  while left > 0 do
    left = left - 1
    local run = redis.call('ZCARD', limit.allowed_key) < limit.most and redis.call('ZRANGE', limit.waiting_key, 0, 0)[1]
    local job = run and redis.pcall('HMGET', RQ_JOB .. run, 'origin', 'status', 'enqueue_at_front') or {}
    local queue = job[2] == 'rate_limited' and job[1]
    if not run or queue and not queue_accepts(queue) then
      return
    end
    redis.call('ZREM', limit.waiting_key, run)
    if queue then
      redis.call('ZADD', limit.allowed_key, string.format('%.0f', math.floor(now_ms / 1000)), run)
      enqueue(run, queue, job[3] == '1')
    end
  end
end

function push_all()
  for key, limit in pairs(touched) do
    redis.call('SADD', rq_limits_key, key)
    redis.call('HSET', RQ_RL .. key, 'concurrency', string.format('%.0f', limit.most))
    fill(limit)
  end
  push_queues()
end
