-- place: take a schedule away from wherever it is; and the ids of its runs.
--
-- USES   schedule_prefix template_prefix run_suffix recurring_key
-- GIVES  run_key(id, due_ms) leave(id, at) remove(id, at)
-- include lib/find.lua
function run_key(id, due_ms)
  return RQ_JOB .. id .. '-' .. due_ms .. run_suffix
end

-- Remove the schedule from its place. `at` is a result of find.
function leave(id, at)
  if at.place == 'due' then
    redis.call('ZREM', at.key, id)
  elseif at.place ~= 'ended' then
    redis.call('HDEL', at.key, id)
  end
end

-- Remove the schedule itself. A waiting run that RQ took over meanwhile (another status) stays.
function remove(id, at)
  leave(id, at)
  if at.recurring then
    redis.call('SREM', recurring_key, id)
    redis.call('DEL', schedule_prefix .. id, template_prefix .. id)
  elseif at.due_ms ~= '-' and redis.pcall('HGET', run_key(id, at.due_ms), 'status') == 'scheduled' then
    redis.call('DEL', run_key(id, at.due_ms))
  end
end
