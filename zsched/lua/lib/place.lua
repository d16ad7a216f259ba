-- place: take a schedule away from wherever it is; and the ids of its runs.
--
-- USES   run_suffix
-- GIVES  run_key(id, due_ms) leave(id, at)
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
