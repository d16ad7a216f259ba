-- trouble: count, for each recurring schedule, its last runs that failed, and its last occurrences that were skipped
-- for overlap, in a row.
--
-- USES   failing_key blocked_key
-- GIVES  failures_of(id)
--        note_failures(id, count)  0 if the last run succeeded; after failures_of
--        note_skipped(skipped, others)  ids of schedules whose last occurrence was skipped for overlap, or was not
--        forget_trouble(id)  both counts restart, because somebody paused, resumed or removed the schedule
--
-- A schedule without trouble is in neither ZSET, so they are small. If another program wrote one of these keys as
-- another type, nothing is counted there, and the script goes on.
-- include lib/untrusted.lua
local is_any

function failures_of(id)
  if is_any == nil then  -- most often there is none: one question for all runs of a call
    is_any = is_a(failing_key, 'zset') and redis.call('ZCARD', failing_key) > 0
  end
  return is_any and tonumber(redis.call('ZSCORE', failing_key, id) or '') or 0
end

function note_failures(id, count)
  if not is_a(failing_key, 'zset') then
    return
  elseif count > 0 then
    redis.call('ZADD', failing_key, string.format('%.0f', count), id)
  else
    redis.call('ZREM', failing_key, id)
  end
end

function note_skipped(skipped, others)
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

function forget_trouble(id)
  note_failures(id, 0)
  note_skipped({}, {id})
end
