-- place: take a schedule away from wherever it is; whether it is to be paused; and the ids of its runs.
--
-- USES   run_suffix
-- GIVES  run_key(id, due_ms) will_pause(enabled, at) leave(id, at)
-- include lib/find.lua
function run_key(id, due_ms)
  return RQ_JOB .. id .. '-' .. due_ms .. run_suffix
end

-- Return whether a put leaves a schedule paused. `at` is a result of find; enabled: 1, 0, or '' for no change.
function will_pause(enabled, at)
  return enabled == '0' or enabled == '' and at and at.place == 'paused'
end

-- Remove the schedule from its place.
function leave(id, at)
  if at.place == 'due' then
    redis.call('ZREM', at.key, id)
  elseif at.place ~= 'ended' then
    redis.call('HDEL', at.key, id)
  end
end
