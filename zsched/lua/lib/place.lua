-- place: put a schedule into its lane, or take it away from wherever it is.
--
-- USES   schedule_prefix template_prefix run_suffix wake_key, and what find uses
-- GIVES  run_key(id, due_ms), wake_if_earlier(lane, due_ms), leave(id, at), remove(id, at),
--        free_run(id, at_ms, least); what lib/find.lua and lib/rq.lua give
-- include lib/rq.lua
-- include lib/find.lua
local function run_key(id, due_ms)
  return RQ_JOB .. id .. '-' .. due_ms .. run_suffix
end

-- Call before the ZADD: the daemon sleeps until the head that is there now.
local function wake_if_earlier(lane, due_ms)
  local head = redis.call('ZRANGE', lane_keys[lane], 0, 0, 'WITHSCORES')
  if not head[2] or tonumber(due_ms) < tonumber(head[2]) then
    redis.pcall('PUBLISH', wake_key, due_ms)  -- a user without the channel's right: one idle tick, no harm
  end
end

-- Forget where it was. `at` is find's answer.
local function leave(id, at)
  if at.place == 'due' then
    redis.call('ZREM', at.key, id)
  elseif at.place ~= 'ended' then
    redis.call('HDEL', at.key, id)
  end
end

-- Forget the schedule itself. A waiting run that RQ took over meanwhile (another status) stays RQ's.
local function remove(id, at)
  leave(id, at)
  if at.recurring then
    redis.call('SREM', recurring_key, id)
    redis.call('DEL', schedule_prefix .. id, template_prefix .. id)
  elseif at.due_ms ~= '-' and redis.pcall('HGET', run_key(id, at.due_ms), 'status') == 'scheduled' then
    redis.call('DEL', run_key(id, at.due_ms))
  end
end

-- The first free run id of this millisecond: with -r<k> from k = *least*; 0 is the plain one.
local function free_run(id, at_ms, least)
  local run, k = id .. '-' .. string.format('%.0f', at_ms) .. run_suffix, least
  local free = k == 0 and run or run .. '-r' .. k
  while redis.call('EXISTS', RQ_JOB .. free) == 1 do
    k = k + 1
    free = run .. '-r' .. k
  end
  return free
end
