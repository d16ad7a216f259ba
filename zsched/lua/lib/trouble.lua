-- trouble: count, for each recurring schedule, its last runs that failed, and its last occurrences that were skipped
-- for overlap, in a row.
--
-- USES   failing_key blocked_key
-- GIVES  a table with these functions:
--        failures_of(id), note_failures(id, count): 0 if the last run succeeded. Call the first before the second
--        note_skipped(skipped, others): ids of schedules whose last occurrence was skipped for overlap, or was not
--        forget(id): both counts restart, because somebody paused, resumed or removed the schedule
--
-- A schedule without trouble is in neither ZSET, so they are small. If another program wrote one of these keys as
-- another type, nothing is counted there, and the script goes on.
-- include lib/untrusted.lua
local trouble = {}  -- one name: a script may have 200 at most

function trouble.failures_of(id)
  if trouble.is_any == nil then  -- most often there is none: one question for all runs of a call
    trouble.is_any = is_a(failing_key, 'zset') and redis.call('ZCARD', failing_key) > 0
  end
  return trouble.is_any and tonumber(redis.call('ZSCORE', failing_key, id) or '') or 0
end

function trouble.note_failures(id, count)
  if not is_a(failing_key, 'zset') then
    return
  elseif count > 0 then
    redis.call('ZADD', failing_key, string.format('%.0f', count), id)
  else
    redis.call('ZREM', failing_key, id)
  end
end

function trouble.note_skipped(skipped, others)
  local many = 5000  -- of one command; unpack fails near 8,000
  if #skipped + #others == 0 or not is_a(blocked_key, 'zset') then
    return
  end
  if redis.call('ZCARD', blocked_key) > 0 then
    for first = 1, #others, many do
      redis.call('ZREM', blocked_key, unpack(others, first, math.min(first + many - 1, #others)))
    end
  end
  for _, id in ipairs(skipped) do
    redis.call('ZADD', blocked_key, 'INCR', 1, id)
  end
end

function trouble.forget(id)
  trouble.note_failures(id, 0)
  trouble.note_skipped({}, {id})
end
