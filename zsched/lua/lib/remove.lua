-- remove: remove a schedule, with its hashes and its state.
--
-- USES   schedule_prefix template_prefix recurring_key
-- GIVES  remove(id, at)
-- include lib/place.lua
-- include lib/state.lua

-- `at` is a result of find. A waiting run that RQ took over meanwhile (another status) stays.
function remove(id, at)
  leave(id, at)
  if at.recurring then
    redis.call('SREM', recurring_key, id)
    redis.call('DEL', schedule_prefix .. id, template_prefix .. id)
    forget_counts(id)
  elseif at.due_ms ~= '-' and redis.pcall('HGET', run_key(id, at.due_ms), 'status') == 'scheduled' then
    redis.call('DEL', run_key(id, at.due_ms))
  end
end
