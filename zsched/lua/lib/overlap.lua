-- overlap: what a new run of a schedule does when runs before it are not over.
--
-- USES   now_ms chains_key iso(), and as RQ writes times: silent_before, of heartbeats; waits_before, of pushes
-- GIVES  overlapping(id, mode, limit, last) -> 'overlap', run | 'deferred', run | 'free', why the one before does not count
--        defer_problem(run, queue, before) -> nil, or what is in the way
--        and to write: defer(run, queue, before), cancel_previous(id), follow(id, mode, run); ends: the lines of runs
--        that cancel_previous cancelled, for an `end` entry; chains: by id, of those that have one
--
-- Of `queue` and `cancel_previous` a chain says which runs may be open, oldest first: "<mode> <run> <run> …". A run of
-- `queue` waits as RQ's deferred job, a dependent of the one before it, which RQ's worker releases; where RQ never does
-- (the one before was cancelled, stopped, expired, deleted, or its worker died) the leader does (daemon/chains.py).
local MOST_WAITING = 2000  -- in a longer queue a run is not looked for: it loses its data, and a worker passes it over
local REMAINS_MS = 600000  -- of such a job, see cancel_run.lua
local PLACES = {queued = 'rq:queue:', scheduled = 'rq:scheduled:', deferred = 'rq:deferred:'}
local IS_PENDING = {queued = true, started = true, deferred = true, scheduled = true}
local chains, ends = {}, {}

-- Is the run waiting or running? Second value: why it no longer counts, when that is a judgement; third: its job.
local function is_open(run)
  local job = redis.pcall('HMGET', 'rq:job:' .. run, 'status', 'last_heartbeat', 'enqueued_at', 'origin', 'worker_name')
  local status = job[1]
  if not status or not IS_PENDING[status] then
    return false
  end
  if status == 'started' and job[2] and job[2] ~= '' and job[2] < silent_before then
    return false, 'previous_worker_silent'
  end
  if status ~= 'started' and job[3] and job[3] ~= '' and job[3] < waits_before then
    return false, 'previous_waits_too_long'
  end
  return true, nil, job
end

-- The chain of a schedule without what is over; each its run and job. Second value: as is_open's, of the last that is.
local function open_chain(id)
  local open, why = {}, nil
  local chain = redis.pcall('HGET', chains_key, id)
  for run in string.gmatch(type(chain) == 'string' and string.match(chain, ' .*') or '', '%S+') do
    local is_one, judged, job = is_open(run)
    why = judged or why
    if is_one then
      open[#open + 1] = {run = run, status = job[1], queue = job[4] or '', worker = job[5] or ''}
    end
  end
  return open, why
end

local function overlapping(id, mode, limit, last)
  if mode == 'allow' then
    return 'free'
  elseif mode == 'skip' then
    local open, why = false, nil
    if last then
      open, why = is_open(last)
    end
    return open and 'overlap' or 'free', open and last or why
  end
  local open, why = open_chain(id)
  chains[id] = open
  if mode == 'cancel_previous' or #open == 0 then
    return 'free', why
  end
  local waiting = 0
  for _, one in ipairs(open) do
    waiting = waiting + (one.status == 'started' and 0 or 1)
  end
  local before = open[#open].run
  return waiting >= limit and 'overlap' or 'deferred', before
end

local function is_a(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end

local function defer_problem(run, queue, before)
  for key, kind in pairs({['rq:deferred:' .. queue] = 'zset', ['rq:job:' .. before .. ':dependents'] = 'set',
    ['rq:job::' .. run .. ':dependencies'] = 'set'}) do
    if not is_a(key, kind) then
      return 'wrong type at ' .. key
    end
  end
end

-- Make the run, whose hash is there, wait for the one before it.
local function defer(run, queue, before)
  redis.call('HSET', 'rq:job:' .. run, 'status', 'deferred', 'dependency_id', before,
    'dependency_ids', '["' .. before .. '"]', 'allow_dependency_failures', '1')
  redis.call('SADD', 'rq:job:' .. before .. ':dependents', run)
  redis.call('SADD', 'rq:job::' .. run .. ':dependencies', before)  -- two colons: RQ's own
  redis.call('ZADD', 'rq:deferred:' .. queue, string.format('%.0f', math.floor(now_ms / 1000)), run)
end

-- Take a run that waits out of where it does. False when it is not there: a worker is about to begin with it.
local function withdraw(one)
  local place_key, job_key = PLACES[one.status] .. one.queue, 'rq:job:' .. one.run
  local is_list = one.status == 'queued'
  if not is_a(place_key, is_list and 'list' or 'zset') then
    return false
  end
  if is_list and redis.call('LLEN', place_key) > MOST_WAITING then
    redis.call('HSET', job_key, 'status', 'canceled', 'ended_at', iso(now_ms), 'zs_gone', '1')
    redis.call('HDEL', job_key, 'data')
    redis.call('PEXPIRE', job_key, REMAINS_MS)
    return true
  end
  if redis.call(is_list and 'LREM' or 'ZREM', place_key, unpack(is_list and {1, one.run} or {one.run})) == 0 then
    return false
  end
  redis.call('HSET', job_key, 'status', 'canceled', 'ended_at', iso(now_ms))
  redis.call('PERSIST', job_key)  -- of a deadline: it did not expire
  if is_a('rq:canceled:' .. one.queue, 'zset') then
    redis.call('ZADD', 'rq:canceled:' .. one.queue, math.floor(now_ms / 1000), one.run)
  end
  return true
end

-- Cancel what waits of the chain, tell the workers of what runs; those that go on for now stay in the chain.
local function cancel_previous(id)
  local left = {}
  for _, one in ipairs(chains[id]) do
    if one.status ~= 'started' and withdraw(one) then
      ends[#ends + 1] = one.run .. ' cancelled {"ended":' .. string.format('%.0f', now_ms)
        .. ',"error":"its next occurrence came first (overlap=cancel_previous)"}'
    else
      if one.status == 'started' and one.worker ~= '' then
        redis.pcall('PUBLISH', 'rq:pubsub:' .. one.worker, '{"command": "stop-job", "job_id": "' .. one.run .. '"}')
      end
      left[#left + 1] = one
    end
  end
  chains[id] = left
end

-- Note the new run as the last of its chain.
local function follow(id, mode, run)
  local words = {mode}
  for _, one in ipairs(chains[id]) do
    words[#words + 1] = one.run
  end
  words[#words + 1] = run
  redis.call('HSET', chains_key, id, table.concat(words, ' '))
end
