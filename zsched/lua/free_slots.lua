-- free_slots: free the slots of RQ's rate limits that no job needs any more, and queue jobs that wait for a slot.
--
-- KEYS   lease meta log rq_queues rq_limits
-- ARGV   @term
--        most            jobs with a slot to look at, per limit
--        ...             two texts per limit: its key, and how many of its jobs were looked at before
-- RETURNS  OK, then per limit: how many slots were freed, and how many of its jobs are looked at now, -1 after the last
--          |  STALE  |  SERVER
-- LOGS   nothing: it is RQ's own state, and the pushes after a loss rebuild it
--
-- RQ's worker frees a slot when it ends a job, in a separate call. RQ's maintenance frees the other slots every ten
-- minutes (RateLimitRegistry.cleanup). A slot is left if a worker was killed before that call; if the worker has RQ 2,
-- which knows no limits; or if the run is lost, or expired or was cancelled in its queue. This script frees slots by
-- RQ's rule: a job needs its slot while it is queued or started, or has an execution that has not lapsed. RQ's worker
-- may free the same slot before or after. The slot is removed once, and no more jobs are queued than there are slots.
-- RQ removes the keys of limits that nobody uses.
-- include lib/fence.lua
-- include lib/slots.lua

local NEEDS_SLOT = {queued = true, started = true}
local now_s = string.format('(%.0f', math.floor(now_ms / 1000))
most = tonumber(most)

local function needs_slot(job)
  local status = redis.pcall('HGET', RQ_JOB .. job, 'status')
  if type(status) == 'string' and NEEDS_SLOT[status] then
    return true
  end
  local executions_key = RQ_EXECUTIONS .. job
  return is_a(executions_key, 'zset') and redis.call('ZCOUNT', executions_key, now_s, '+inf') > 0
end

-- Return how many slots were freed, and how many jobs of the limit were looked at, -1 after the last.
local function free(key, passed)
  local limit = limit_of(key, is_a(RQ_RL .. key, 'hash') and redis.call('HGET', RQ_RL .. key, 'concurrency'))
  if not limit then
    return 0, -1
  end
  local freed = 0
  local jobs = redis.call('ZRANGE', limit.allowed_key, passed, passed + most - 1)
  for _, job in ipairs(jobs) do
    if not needs_slot(job) then
      freed = freed + redis.call('ZREM', limit.allowed_key, job)
    end
  end
  fill(limit)
  return freed, #jobs == most and passed + most - freed or -1
end

local reply = {'OK'}
for i = ROWS, #ARGV, 2 do
  reply[#reply + 1], reply[#reply + 2] = free(ARGV[i], tonumber(ARGV[i + 1]))
end
push_all()
return reply
