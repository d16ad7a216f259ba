-- waiting: runs that wait in RQ, their places and predecessors, and their removal.
--
-- USES   now_ms
-- GIVES  place_of(one)  for a run with its status, queue and limit_key: the key where it waits; nil if it does not wait
--        is_in_place(one, most)  for such a run; it only reads
--        dependencies_of(run)  it only reads
--        take_out(one)  which needs one.dependencies
--        depend_no_more(run, dependencies)  part of take_out
--        REMAINS_MS  life of a job that is taken out and not kept
--        sweep(runs, queue)  for waiting runs that were cancelled or are gone
-- include lib/iso.lua
-- include lib/rq.lua
-- include lib/untrusted.lua
local PLACES = {queued = RQ_QUEUE, scheduled = RQ_SCHEDULED, deferred = RQ_DEFERRED, ready_to_enqueue = RQ_READY}
REMAINS_MS = 600000  -- a healthy archive is never so far behind

function place_of(one)
  if one.status == 'rate_limited' then
    return (one.limit_key or '') ~= '' and RQ_RL .. one.limit_key .. ':rate_limited' or nil
  end
  return PLACES[one.status] and one.queue ~= '' and PLACES[one.status] .. one.queue or nil
end

-- Return whether the run is where it should wait; else a worker is about to begin it. Only the first *most* runs of a
-- queue are searched, since more would block Redis: one.is_far is set if the run may wait behind them. one.looked_at is
-- the number of runs that were searched.
function is_in_place(one, most)
  local key = place_of(one)
  if not key then
    return false
  elseif one.status ~= 'queued' then
    return is_a(key, 'zset') and redis.call('ZSCORE', key, one.run)
  end
  local length = is_a(key, 'list') and redis.call('LLEN', key) or 0
  local ahead = length > 0 and redis.call('LPOS', key, one.run, 'MAXLEN', most)
  one.is_far, one.looked_at = not ahead and length > most, ahead or math.min(length, most)
  return ahead or one.is_far
end

function dependencies_of(run)
  local key = dependencies_key(run)
  return is_a(key, 'set') and redis.call('SMEMBERS', key) or {}
end

-- RQ watches the sets of dependents when it releases a run, so it cannot release this one at the same time.
function depend_no_more(run, dependencies)
  for _, before in ipairs(dependencies) do
    local key = dependents_key(before)
    if is_a(key, 'set') then
      redis.call('SREM', key, run)
    end
  end
  redis.call('DEL', dependencies_key(run))
end

-- Cancel the run; the caller logs it. zs_told is the end that is in the log, so that track.lua does not record it again
-- while the archive is behind. If is_far, the run stays in its list and its job loses its data. RQ then finds no such
-- job, so a worker skips it (measured, RQ 2.8 and 2.12).
function take_out(one)
  local place_key, job_key = place_of(one), RQ_JOB .. one.run
  local at = iso(now_ms)
  redis.call('HSET', job_key, 'status', 'canceled', 'ended_at', at, 'zs_told', at)
  depend_no_more(one.run, one.dependencies)  -- else RQ would release it all the same
  if one.is_far then
    redis.call('HSET', job_key, 'zs_gone', '1')
    redis.call('HDEL', job_key, 'data')
  elseif one.status == 'queued' then
    redis.call('LREM', place_key, 1, one.run)  -- as RQ does; it ends at the first
  else
    redis.call('ZREM', place_key, one.run)
  end
end

-- Remove what RQ would keep for ever: that these runs waited, and for which runs.
function sweep(runs, queue)
  for _, run in ipairs(runs) do
    depend_no_more(run, dependencies_of(run))
    if queue and is_a(RQ_DEFERRED .. queue, 'zset') then
      redis.call('ZREM', RQ_DEFERRED .. queue, run)
    end
  end
end
