-- waiting: runs that have not begun, the places where they wait, and their removal.
--
-- USES   now_ms waiting_prefix
-- GIVES  place_of(one)  for a run with its status, queue, limit_key and, if it waits for another run, the id of its
--          schedule: the key where it waits, and the type of that; nil if it does not wait
--        is_in_place(one, most)  for such a run; it only reads
--        take_out(one)
--        REMAINS_MS  life of a job that is taken out and not kept
-- include lib/iso.lua
-- include lib/untrusted.lua
local PLACES = {queued = RQ_QUEUE, scheduled = RQ_SCHEDULED}
local TYPES = {queued = 'list', deferred = 'list'}  -- else a ZSET
REMAINS_MS = 600000  -- a healthy archive is never so far behind

function place_of(one)
  local status, key = one.status, nil
  if status == 'rate_limited' then
    key = (one.limit_key or '') ~= '' and RQ_RL .. one.limit_key .. ':rate_limited' or nil
  elseif status == 'deferred' then
    key = waiting_prefix .. one.id
  elseif PLACES[status] and one.queue ~= '' then
    key = PLACES[status] .. one.queue
  end
  return key, TYPES[status] or 'zset'
end

-- Return whether the run is where it should wait; else a worker is about to begin it. Only the first *most* runs of a
-- queue are searched, since more would block Redis: one.is_far is set if the run may wait behind them. one.looked_at is
-- the number of runs that were searched.
function is_in_place(one, most)
  local key, kind = place_of(one)
  if not key or not is_a(key, kind) then
    return false
  elseif kind == 'zset' then
    return redis.call('ZSCORE', key, one.run)
  elseif one.status == 'deferred' then
    return redis.call('LPOS', key, one.run)
  end
  local length = redis.call('LLEN', key)
  local ahead = length > 0 and redis.call('LPOS', key, one.run, 'MAXLEN', most)
  one.is_far, one.looked_at = not ahead and length > most, ahead or math.min(length, most)
  return ahead or one.is_far
end

-- Cancel the run; the caller logs it. zs_told is the end that is in the log, so that track.lua does not record it again
-- while the archive is behind. If is_far, the run stays in its list and its job loses its data. RQ then finds no such
-- job, so a worker skips it (measured, RQ 2.8 and 2.12).
function take_out(one)
  local key, kind = place_of(one)
  local job_key, at = RQ_JOB .. one.run, iso(now_ms)
  redis.call('HSET', job_key, 'status', 'canceled', 'ended_at', at, 'zs_told', at)
  if one.is_far then
    redis.call('HSET', job_key, 'zs_gone', '1')
    redis.call('HDEL', job_key, 'data')
  elseif kind == 'list' then
    redis.call('LREM', key, 1, one.run)  -- as RQ does; it ends at the first
  else
    redis.call('ZREM', key, one.run)
  end
end
