-- slots: RQ's rate limits, which it has since version 3. A job may name a limit, by its key, and how many slots that
-- has: so many jobs may be queued or running at once. One without a slot is `rate_limited` and waits in a ZSET.
--
-- USES   rq_limits_key, and what lib/launch.lua uses
-- GIVES  limit_of(key, most), of a job's fields rate_limit_key and rate_limit_concurrency: {key, most}; nil if it has
--        no limit; false if a key of the limit is of a wrong type
--        hold_back(run, limit, at_front, ...), of a run whose job is there: it waits; what follows are further texts of
--        the hash
--        fill_slots(), before push_all: those that wait longest are queued, as far as there are slots
--
-- States and keys are RQ's (rate_limit.py, RateLimitRegistry): a SET of all limits' keys; of each a HASH with the
-- newest `concurrency`, and the ZSETs `allowed`, of those with a slot, and `rate_limited`, by the time from which they
-- wait. RQ's times are whole seconds; these have a fraction, so that jobs of a second keep their order. RQ's worker
-- gives a slot back when it ends a job, and its maintenance those of workers that died.
-- include lib/launch.lua
-- include lib/untrusted.lua
local MOST_FILLED = 1000  -- of those that wait, in a script; the others when a slot is given back
local limits, held = {}, 0

local function allowed_key(key)
  return RQ_LIMIT .. key .. ':allowed'
end

local function waiting_key(key)
  return RQ_LIMIT .. key .. ':rate_limited'
end

local function limit_of(key, most)
  most = whole_of(most)
  if not key or key == '' or not most or most < 1 then
    return nil
  end
  return is_a(rq_limits_key, 'set') and is_a(RQ_LIMIT .. key, 'hash') and is_a(allowed_key(key), 'zset')
    and is_a(waiting_key(key), 'zset') and {key = key, most = most}
end

local function hold_back(run, limit, at_front, ...)
  if not limits[limit.key] then
    redis.call('SADD', rq_limits_key, limit.key)
  end
  limits[limit.key] = limit.most
  redis.call('HSET', RQ_LIMIT .. limit.key, 'concurrency', string.format('%.0f', limit.most))
  redis.call('HSET', RQ_JOB .. run, 'status', 'rate_limited', ...)
  if at_front then
    redis.call('HSET', RQ_JOB .. run, 'enqueue_at_front', '1')
  end
  redis.call('ZADD', waiting_key(limit.key), string.format('%.6f', now_ms / 1000 + held / 1000000), run)
  held = held + 1
end

-- One that is gone, or waits no more, is left out, as RQ leaves it out.
local function fill(key, most)
  local allowed, waiting = allowed_key(key), waiting_key(key)
  for _ = 1, MOST_FILLED do
    local run = redis.call('ZCARD', allowed) < most and redis.call('ZRANGE', waiting, 0, 0)[1]
    local job = run and redis.pcall('HMGET', RQ_JOB .. run, 'origin', 'status', 'enqueue_at_front') or {}
    local queue = job[2] == 'rate_limited' and job[1]
    if not run or queue and not queue_accepts(queue) then
      return
    end
    redis.call('ZREM', waiting, run)
    if queue then
      redis.call('ZADD', allowed, string.format('%.0f', math.floor(now_ms / 1000)), run)
      requeue(run, queue, job[3] == '1')
    end
  end
end

local function fill_slots()
  for key, most in pairs(limits) do
    fill(key, most)
  end
end
