-- native: move RQ's own delayed jobs to their queues when they are due, if no scheduler of RQ does it.
--
-- KEYS   lease meta log rq_queues rq_limits
-- ARGV   @term
--        owner                        value of our scheduler locks, the same for all daemons of a namespace
--        lock_s                       life of these locks from now on, in seconds; 0: give them up, move nothing
--        limit                        most jobs looked at
--        ...                          names of RQ queues; the first are served first
-- RETURNS  OK, now ms, ms of the next look or '' (now when there are more), number looked at, number pushed or held by
--          a rate limit, and three lists: queues that others serve (name, lock's value), queues with a key of a wrong
--          type (name, key), and odd jobs (name, id, word): taken out without a push because they are gone, have
--          "no status", or have another status than scheduled; or left because their key is of a wrong type (WRONGTYPE)
--          |  STALE  |  SERVER
-- LOGS   nothing: they are RQ's jobs, neither in the log nor recovered
--
-- A job with another status was queued, run or cancelled by somebody: RQ's scheduler would push it a second time.
-- But RQ 2 writes registry and job one after the other (ScheduledJobRegistry.schedule ignores its pipeline), so a job
-- that is odd or gone may be half written. It is first postponed by PATIENCE_S, so it does not stay at the head. If it
-- is odd then, it is taken out. A job with a key of a wrong type is postponed again and again.
--
-- RQ cuts its due times to whole seconds. So a job with RQ's score is looked at when its second begins, and postponed
-- to the first millisecond that is not early (``earliest``). A score with a fraction says that the job was looked at
-- before. Score and ended_at are by the clock of their writer, mostly a worker, and not by the server's.
lock_s, limit = tonumber(lock_s), tonumber(limit)
-- include lib/fence.lua
-- include lib/slots.lua
-- include lib/rq.lua
-- include lib/wording.lua

local PATIENCE_S = 5
local LAST_S = '253402300799'  -- the year 9999
local DEFAULT_TIMEOUT_S = '180'  -- RQ's own
local LONGEST_INTERVALS = 10000  -- bytes of a list that is read: Redis does nothing else meanwhile

local now_s = string.format('%.3f', now_ms / 1000)
local later_s = string.format('%.1f', math.floor(now_ms / 1000) + PATIENCE_S + 0.5)
local next_ms, looked = '', 0
local others, broken, odd = {}, {}, {}
local moved, NOTHING = {}, {}  -- jobs to push, with further texts of their hashes and a time to live
local taken = {}  -- by the job's key: the queue of its registry
local served = {}  -- queues, each with its keys and the changes to its registry

-- True as RQ reads a flag: bool(int(…)).
local function is_set(flag)
  return flag and flag ~= '' and tonumber(flag) ~= 0
end

local function add(list, ...)
  for _, text in ipairs({...}) do
    list[#list + 1] = text
  end
end

-- Return the seconds between a failed attempt and the next one, as RQ's Job.get_retry_interval gave them before RQ
-- counted retries_left down. Return nothing where the time may have come from elsewhere: a Retry that the task
-- returned (number_of_retries), or a Repeat (repeats_left).
local function interval_of(retries_left, intervals, number_of_retries, repeats_left)
  local left, all = tonumber(retries_left or ''), {}
  for text in string.gmatch(#(intervals or '') <= LONGEST_INTERVALS and intervals or '', '[^%[%], ]+') do
    all[#all + 1] = tonumber(text) or 0
  end
  local interval_s = left and not number_of_retries and not repeats_left and all[math.max(#all - left - 1, 0) + 1]
  return interval_s and interval_s >= 1 and interval_s % 1 == 0 and interval_s
end

-- Return the first ms at which a job is not early, after its second has begun: for another attempt ended_at + interval,
-- if that fits RQ's score; else the end of the second. An ended_at before started_at belongs to an earlier attempt.
local function earliest(job_key, score_s, ended_at)
  local second, micros = string.match(ended_at or '', '^(%d+%-%d%d%-%d%dT%d%d:%d%d:%d%d)%.(%d%d%d%d%d%d)Z$')
  local job = second and redis.call('HMGET', job_key, 'started_at', 'retries_left', 'retry_intervals',
    'number_of_retries', 'repeats_left') or {}
  local interval_s = job[1] and job[1] <= ended_at and interval_of(unpack(job, 2, 5))
  if interval_s and interval_s <= score_s then
    if second == string.sub(iso((score_s - interval_s) * 1000), 1, #second) then
      return score_s * 1000 + math.ceil(tonumber(micros) / 1000)
    elseif second == string.sub(iso((score_s - interval_s - 1) * 1000), 1, #second) then
      return score_s * 1000  -- RQ handled the failure until the next second began, and counted the interval from there
    end
  end
  return (score_s + 1) * 1000
end

-- Decide about a job, as RQ's Queue._enqueue_job would. *score_s*: RQ's score, if its second is not over. Return a word
-- for an odd job; or nil and the ms until which it waits; or nothing if it is to be pushed.
local function take(queue, id, score_s)
  local job_key = RQ_JOB .. id
  local job = redis.pcall('HMGET', job_key, 'status', 'origin', 'timeout', 'ttl', 'ended_at', 'enqueue_at_front',
    'enqueue_at_front_on_retry', 'rate_limit_key', 'rate_limit_concurrency')
  local rate_limit = not job.err and limit_of(job[8], job[9])
  if job.err or rate_limit == false then
    return 'WRONGTYPE'
  end
  local status, origin, timeout, ttl, ended_at, at_front, at_front_on_retry = unpack(job, 1, 7)
  if taken[job_key] then
    return 'scheduled for ' .. taken[job_key] .. ' too'
  elseif status ~= 'scheduled' then
    return word_of(status) or redis.call('EXISTS', job_key) == 1 and 'no status' or 'gone'
  end
  local from_ms = score_s and earliest(job_key, score_s, ended_at) or now_ms
  if from_ms > now_ms then
    return nil, from_ms
  end
  local has_ttl = ttl and #ttl < 12 and string.find(ttl, '^[1-9]%d*$')
  local has_timeout = timeout and timeout ~= ''
  local fields = not has_timeout and {'origin', queue, 'timeout', DEFAULT_TIMEOUT_S}
    or origin ~= queue and {'origin', queue} or NOTHING
  moved[#moved + 1] = {id = id, queue = queue, ttl = has_ttl and ttl, fields = fields, rate_limit = rate_limit,
    at_front = is_set(at_front) or is_set(at_front_on_retry) and ended_at and ended_at ~= ''}
  taken[job_key] = queue
end

-- Decide about the due jobs of a queue. The queue is ours, and its keys are of the right types.
local function look(queue, lock_key, registry_key)
  local gone, later = {}, {}
  local due = looked < limit
    and redis.call('ZRANGEBYSCORE', registry_key, '-inf', now_s, 'WITHSCORES', 'LIMIT', 0, limit - looked) or {}
  for i = 1, #due, 2 do
    local id, score_s = due[i], tonumber(due[i + 1])
    local is_first_look = score_s % 1 == 0
    local word, from_ms = take(queue, id, is_first_look and now_ms < (score_s + 1) * 1000 and score_s)
    if from_ms then
      add(later, string.format('%.4f', from_ms / 1000 - 0.0001), id)  -- so it has a fraction, and is due at that ms
    elseif word and (is_first_look or word == 'WRONGTYPE') then
      add(later, later_s, id)
    else
      add(gone, id)
    end
    if word and is_first_look == (word == 'WRONGTYPE') then
      add(odd, queue, id, word)
    end
  end
  looked = looked + #due / 2
  served[#served + 1] = {lock_key = lock_key, registry_key = registry_key, gone = gone, later = later}
end

for i = ROWS, #ARGV do
  local queue = ARGV[i]
  local registry_key, lock_key = RQ_SCHEDULED .. queue, RQ_SCHEDULER_LOCK .. queue
  local wrong = not is_a(lock_key, 'string') and lock_key or not queue_accepts(queue) and RQ_QUEUE .. queue
    or not is_a(registry_key, 'zset') and registry_key
  local holder = wrong ~= lock_key and redis.call('GET', lock_key)
  if lock_s == 0 then
    if holder == owner then
      redis.call('DEL', lock_key)
    end
  elseif wrong then
    add(broken, queue, wrong)
  elseif holder and holder ~= owner then
    add(others, queue, line_of(holder))
  else
    look(queue, lock_key, registry_key)
  end
end

-- Everything was read: nothing below fails halfway.
for _, one in ipairs(moved) do
  queue_run(one.id, one.queue, one.at_front, one.rate_limit, unpack(one.fields))
  if one.ttl then  -- RQ's ttl begins anew in the queue
    redis.call('EXPIRE', RQ_JOB .. one.id, one.ttl)
    redis.call('EXPIRE', dependents_key(one.id), one.ttl)
    redis.call('EXPIRE', dependencies_key(one.id), one.ttl)
  end
end
push_all()
for _, one in ipairs(served) do
  redis.call('SET', one.lock_key, owner, 'EX', lock_s)
  if #one.gone > 0 then
    redis.call('ZREM', one.registry_key, unpack(one.gone))
  end
  if #one.later > 0 then
    redis.call('ZADD', one.registry_key, unpack(one.later))
  end
  local head = redis.call('ZRANGEBYSCORE', one.registry_key, '-inf', LAST_S, 'WITHSCORES', 'LIMIT', 0, 1)
  if head[2] then
    local head_ms = math.max(math.ceil(tonumber(head[2]) * 1000), now_ms)
    next_ms = next_ms == '' and head_ms or math.min(next_ms, head_ms)
  end
end
return {'OK', now_ms, next_ms, looked, #moved, others, broken, odd}
