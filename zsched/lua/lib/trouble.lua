-- trouble: restart the counts of a recurring schedule's last runs that failed, and of its last occurrences that were
-- skipped for overlap, in a row.
--
-- USES   failing_key blocked_key
-- GIVES  forget_failures(id)
--        forget_trouble(id)  both, because somebody paused, resumed or removed the schedule
--
-- A schedule without trouble is in neither ZSET, so they are small. If another program wrote one of these keys as
-- another type, nothing is counted there, and the script goes on. lib/streaks.lua and advance.lua count.
-- include lib/untrusted.lua
function forget_failures(id)
  if is_a(failing_key, 'zset') then
    redis.call('ZREM', failing_key, id)
  end
end

function forget_trouble(id)
  forget_failures(id)
  if is_a(blocked_key, 'zset') then
    redis.call('ZREM', blocked_key, id)
  end
end
