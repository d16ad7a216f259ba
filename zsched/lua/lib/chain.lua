-- chain: which runs of a schedule may be open, oldest first, and taking back those that another took the place of.
--
-- USES   now_ms chains_key deadlines_key iso()
-- GIVES  is_a(key, kind), is_open(status), job_of(run), open_chain(id, last) -> its runs that are open
--        open_queue(id, last, limit, queue), of `queue` -> before: its open runs from the last that is deferred on, or all;
--        waiting: how many wait, at least *limit* only if that many do; text: of all that stay
--        chains, by id: the text of what stays of a chain; text_of(runs)
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
local AT_ONCE = 1000  -- arguments of a call, of which Lua cannot unpack more than 8,000
local SPACE = 32  -- as a byte
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

-- " <run> <run> …". The run that was pushed last belongs to it too: by run_now, or before there was this policy.
local function held(id, last)
  local text = string.match(redis.call('HGET', chains_key, id) or '', ' .*') or ''
  if last and not string.find(text .. ' ', ' ' .. last .. ' ', 1, true) then
    text = text .. ' ' .. last
  end
  return text
end

-- The job of a run of schedule *id*, when it is open.
local function meet(id, run)
  local job = job_of(run)
  if is_open(job.status) then
    return job
  elseif not job.status or job.status == 'canceled' then
    stale[id][#stale[id] + 1] = run
  end
end

local function text_of(open)
  local words = {''}
  for _, one in ipairs(open) do
    words[#words + 1] = one.run
  end
  return table.concat(words, ' ')
end

local function open_chain(id, last)
  local open = {}
  stale[id] = {}
  for run in string.gmatch(held(id, last), '[^ ]+') do
    open[#open + 1] = meet(id, run)
  end
  return open
end

local function count_waiting(open)
  local count = 0
  for _, one in ipairs(open) do
    count = count + (one.status == 'started' and 0 or 1)
  end
  return count
end

-- Whether each of *runs* still is a deferred job of *queue*: two calls, where a look at each takes twice as long.
local function all_wait(runs, queue)
  local keys, deferred_key = {}, 'rq:deferred:' .. queue
  for n, run in ipairs(runs) do
    keys[n] = 'rq:job:' .. run
  end
  for first = 1, is_a(deferred_key, 'zset') and #runs or 0, AT_ONCE do
    local last = math.min(first + AT_ONCE - 1, #runs)
    if redis.call('EXISTS', unpack(keys, first, last)) <= last - first then
      return false
    end
    for _, score in ipairs(redis.call('ZMSCORE', deferred_key, unpack(runs, first, last))) do
      if not score then
        return false
      end
    end
  end
  return true
end

-- The open runs at the end of a chain, oldest first, back to one that is deferred; and where that one ends, or 0.
local function open_at_the_end(id, text)
  local open, to = {}, #text
  while to > 0 do
    local space = to
    while string.byte(text, space) ~= SPACE do
      space = space - 1
    end
    local job = meet(id, string.sub(text, space + 1, to))
    if job then
      table.insert(open, 1, job)
    end
    if job and job.status == 'deferred' then
      return open, to
    end
    to = space - 1
  end
  return open, 0
end

-- The open runs before the first that is deferred, of which there is one; and where the space before that one is.
local function open_in_front(id, text)
  local open, from = {}, 1
  while true do
    local first, to = string.find(text, '[^ ]+', from)
    local job = meet(id, string.sub(text, first, to))
    if job and job.status == 'deferred' then
      return open, first - 1
    end
    open[#open + 1], from = job, to + 1
  end
end

-- Those that wait between the two, the deferred ones included: their text, and how many if that may be *limit* or more.
local function between(id, text, limit, queue)
  local count, at, runs, open = 0, string.find(text, ' ', 1, true), {}, {}
  while at do
    count, at = count + 1, string.find(text, ' ', at + 1, true)
  end
  if count < limit then
    return text, count
  end
  for run in string.gmatch(text, '[^ ]+') do
    runs[#runs + 1] = run
  end
  if all_wait(runs, queue) then
    return text, #runs
  end
  for _, run in ipairs(runs) do
    open[#open + 1] = meet(id, run)
  end
  return text_of(open), count_waiting(open)
end

-- A chain of `queue` is looked at from both ends, each up to a run that is deferred: what lies between waits too, but for
-- one that was cancelled or expired out of turn. That matters when it is full, and then it is looked for.
local function open_queue(id, last, limit, queue)
  local text, after = held(id, last), {}
  stale[id] = {}
  local before, to = open_at_the_end(id, text)
  if to == 0 then
    return {before = before, waiting = count_waiting(before), text = text_of(before)}
  end
  local ahead, from = open_in_front(id, text)
  for n = 2, #before do
    after[#after + 1] = before[n]
  end
  local waiting = count_waiting(ahead) + count_waiting(after)
  local waits, count = between(id, string.sub(text, from, to), limit - waiting, queue)
  return {before = before, waiting = waiting + count, text = text_of(ahead) .. waits .. text_of(after)}
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
  redis.call('HSET', chains_key, id, mode .. chains[id] .. ' ' .. run)
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
