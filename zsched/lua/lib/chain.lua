-- chain: which runs of a schedule may be open, oldest first, and taking back those that another took the place of.
--
-- USES   now_ms chains_key deadlines_key iso()
-- GIVES  is_a(key, kind), is_open(status), job_of(run), open_chain(id, last) -> its runs that are open
--        chains, by id: what the chain of a schedule will be
--        plan_cancels(open), which only reads, then cancel(open), which writes -> those that are still open; ends: the
--        lines of those that were cancelled before they began, for an `end` entry
--        tell(job), that its worker stops it
--        dependencies_of(run), which only reads, then depend_no_more(run, dependencies)
--        follow(id, mode, run, queue); sweep(runs, queue), of what waited and was cancelled, or is gone
--
-- A chain is "<policy> <run> <run> …", of `queue` and of `cancel_previous`. A run of `queue` waits as RQ's deferred job, a
-- dependent of those before it, which RQ's worker releases; where RQ never does (the one before was cancelled, stopped,
-- expired, deleted, or its worker died) the leader does (daemon/chains.py). Whose worker seems dead stays in its chain:
-- that is the leader's to judge too, which knows more of workers than a heartbeat says.
local MOST_WAITING = 2000  -- in a longer queue a run is not looked for: it loses its data, and a worker passes it over
local REMAINS_MS = 600000  -- of a job that was withdrawn; no archive that is well is so far behind
local TELL_AGAIN_MS = 10000  -- see tell
local PLACES = {queued = 'rq:queue:', scheduled = 'rq:scheduled:', deferred = 'rq:deferred:'}
local IS_PENDING = {queued = true, started = true, deferred = true, scheduled = true}
local chains, stale, ends = {}, {}, {}

local function is_a(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end

local function is_open(status)
  return status and IS_PENDING[status] or false
end

local function job_of(run)
  local job = redis.pcall('HMGET', 'rq:job:' .. run, 'status', 'origin', 'worker_name', 'zs_stop')
  return {run = run, status = job[1], queue = job[2] or '', worker = job[3] or '', told_ms = tonumber(job[4] or '')}
end

-- The run that was pushed last belongs to it too: by run_now, or before there was this policy.
local function open_chain(id, last)
  local open, is_known = {}, {}
  stale[id] = {}
  local function meet(run)
    if is_known[run] then
      return
    end
    local job = job_of(run)
    is_known[run] = true
    if is_open(job.status) then
      open[#open + 1] = job
    elseif not job.status or job.status == 'canceled' then
      stale[id][#stale[id] + 1] = run
    end
  end
  for run in string.gmatch(string.match(redis.call('HGET', chains_key, id) or '', ' .*') or '', '%S+') do
    meet(run)
  end
  if last then
    meet(last)
  end
  return open
end

local function dependencies_of(run)
  local key = 'rq:job::' .. run .. ':dependencies'  -- two colons: RQ's own
  return is_a(key, 'set') and redis.call('SMEMBERS', key) or {}
end

-- RQ watches the sets of dependents when it releases: so it does not do that at the same time.
local function depend_no_more(run, dependencies)
  for _, before in ipairs(dependencies) do
    local key = 'rq:job:' .. before .. ':dependents'
    if is_a(key, 'set') then
      redis.call('SREM', key, run)
    end
  end
  redis.call('DEL', 'rq:job::' .. run .. ':dependencies')
end

-- RQ keeps for ever that they waited, and for whom.
local function sweep(runs, queue)
  for _, run in ipairs(runs) do
    depend_no_more(run, dependencies_of(run))
    if queue and is_a('rq:deferred:' .. queue, 'zset') then
      redis.call('ZREM', 'rq:deferred:' .. queue, run)
    end
  end
end

local function follow(id, mode, run, queue)
  local words = {mode}
  for _, one in ipairs(chains[id]) do
    words[#words + 1] = one.run
  end
  words[#words + 1] = run
  redis.call('HSET', chains_key, id, table.concat(words, ' '))
  sweep(stale[id], queue)
end

-- Whether it is where it should wait; else a worker is about to begin with it.
local function waits(one)
  local key = PLACES[one.status] .. one.queue
  if one.status ~= 'queued' then
    return is_a(key, 'zset') and redis.call('ZSCORE', key, one.run)
  end
  one.is_far = is_a(key, 'list') and redis.call('LLEN', key) > MOST_WAITING
  return is_a(key, 'list') and (one.is_far or redis.call('LPOS', key, one.run))
end

local function plan_cancels(open)
  for _, one in ipairs(open) do
    if one.status ~= 'started' and waits(one) then
      one.is_withdrawn, one.dependencies = true, dependencies_of(one.run)
      ends[#ends + 1] = one.run .. ' cancelled {"ended":' .. string.format('%.0f', now_ms)
        .. ',"error":"its next occurrence came first (overlap=cancel_previous)"}'
    end
  end
end

-- As cancel_run.lua does it, but not for ever: RQ never cleans rq:canceled, and this may happen every second.
local function withdraw(one)
  local place_key, job_key = PLACES[one.status] .. one.queue, 'rq:job:' .. one.run
  redis.call('HSET', job_key, 'status', 'canceled', 'ended_at', iso(now_ms))
  redis.call('PEXPIRE', job_key, REMAINS_MS)
  redis.call('ZREM', deadlines_key, one.run)
  depend_no_more(one.run, one.dependencies)
  if one.is_far then
    redis.call('HSET', job_key, 'zs_gone', '1')
    redis.call('HDEL', job_key, 'data')
  elseif one.status == 'queued' then
    redis.call('LREM', place_key, 0, one.run)
  else
    redis.call('ZREM', place_key, one.run)
  end
end

-- Tell its worker to stop it, and note when in zs_stop; false when nobody listens. Not again for a while: an RQ worker that is told so a second time
-- when it has just killed its work horse, and not yet filed the run, kills itself (Worker.kill_horse with no horse: 2.12).
local function tell(one)
  if one.worker == '' then
    return false
  elseif one.told_ms and now_ms - one.told_ms < TELL_AGAIN_MS then
    return true
  end
  local job_key, command = 'rq:job:' .. one.run, '{"command": "stop-job", "job_id": "' .. one.run .. '"}'
  redis.call('HSET', job_key, 'zs_stop', string.format('%.0f', now_ms))
  local heard = redis.pcall('PUBLISH', 'rq:pubsub:' .. one.worker, command)
  if type(heard) ~= 'number' or heard == 0 then
    redis.call('HDEL', job_key, 'zs_stop')
    return false
  end
  return true
end

-- Cancel what waits, and tell the workers of what runs.
local function cancel(open)
  local left = {}
  for _, one in ipairs(open) do
    if one.is_withdrawn then
      withdraw(one)
    else
      if one.status == 'started' then
        tell(one)
      end
      left[#left + 1] = one
    end
  end
  return left
end
