-- overlap: what a new run of a schedule does when runs before it are not over.
--
-- USES   now_ms, and as RQ writes times: silent_before, of heartbeats; waits_before, of pushes
-- GIVES  overlapping(one, last), of a run with its id, mode, limit, run and queue -> 'overlap', run | 'deferred', run,
--        the runs that it waits for | 'free', why the one before does not count | 'broken', what is in the way
--        and to write: defer(run, queue, before, at_front)
-- include lib/chain.lua
-- include lib/withdraw.lua
-- include lib/executions.lua

-- The one judgement of `skip`, which has no leader that looks after it: second value, why a run no longer counts.
-- A heartbeat is by its worker's clock, and RQ's SimpleWorker beats once: its key of the execution tells it is alive.
local function still_counts(run)
  local job = redis.pcall('HMGET', RQ_JOB .. run, 'status', 'last_heartbeat', 'enqueued_at')
  local status = job[1]
  if not is_open(status) then
    return false
  elseif status == 'started' and job[2] and job[2] ~= '' and job[2] < silent_before
    and not is_alive(executions_of(run)) then
    return false, 'previous_worker_silent'
  elseif status ~= 'started' and job[3] and job[3] ~= '' and job[3] < waits_before then
    return false, 'previous_waits_too_long'
  end
  return true
end

local function problem_of(one, before)
  local types = {{RQ_DEFERRED .. one.queue, 'zset'}, {dependencies_key(one.run), 'set'}}
  for _, run in ipairs(before) do
    types[#types + 1] = {dependents_key(run), 'set'}
  end
  for _, each in ipairs(types) do
    if not is_a(each[1], each[2]) then
      return 'wrong type at ' .. name_of(each[1])
    end
  end
end

local function overlapping(one, last)
  if one.mode == 'allow' then
    return 'free'
  elseif one.mode == 'skip' then
    local counts, why = false, nil
    if last then
      counts, why = still_counts(last)
    end
    return counts and 'overlap' or 'free', counts and last or why
  elseif not is_a(chains_key, 'hash') then
    return 'broken', 'wrong type at ' .. chains_key
  end
  if one.mode == 'cancel_previous' then
    one.open = open_chain(one.id, last)
    plan_cancels(one.open)
    return 'free'
  end
  local chain, before = open_queue(one.id, last, one.limit, one.queue), {}
  chains[one.id] = chain.text
  for n, each in ipairs(chain.before) do
    before[n] = each.run
  end
  if #before == 0 then
    return 'free'
  end
  local latest, problem = before[#before], problem_of(one, before)
  if chain.waiting >= one.limit then
    return 'overlap', latest
  elseif problem then
    return 'broken', problem
  end
  return 'deferred', latest, before
end

-- Make the run, whose hash is there, wait for those before it.
local function defer(run, queue, before, at_front)
  redis.call('HSET', RQ_JOB .. run, 'status', 'deferred', 'dependency_id', before[1],
    'dependency_ids', '["' .. table.concat(before, '", "') .. '"]', 'allow_dependency_failures', '1')
  if at_front then
    redis.call('HSET', RQ_JOB .. run, 'enqueue_at_front', '1')
  end
  for _, each in ipairs(before) do
    redis.call('SADD', dependents_key(each), run)
  end
  redis.call('SADD', dependencies_key(run), unpack(before))
  redis.call('ZADD', RQ_DEFERRED .. queue, string.format('%.0f', math.floor(now_ms / 1000)), run)
end
