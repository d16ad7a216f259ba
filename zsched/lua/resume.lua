-- resume: put a paused schedule back into its lane.
--
-- KEYS   @schedules @trouble wake schedule op
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        id
--        keep_op_ms      > 0: op holds the reply that long, and a call sent again gets it
--        missed          fire: at its old due time, passed or not | skip: missed occurrences are recorded, not fired
--        seen_due_ms     '' or, if missed=skip and a recurring schedule is past its due time, the plan's base:
--        planned_version next_ms from_ms until_ms   its version, its next time, valid while from_ms <= TIME < until_ms
--        jitter_ms       how much later than next_ms it is due
--        first_ms last_ms count             the range of missed occurrences
-- RETURNS  OK, word, now ms, due ms or -   |   AGAIN, now ms: read and plan once more
--        words: resumed skipped unchanged NOTFOUND QUARANTINED ENDED
-- LOGS   resume: id, lane, due, missed; after a skip also first, last, count, and of a recurring schedule nominal
--
-- The counts of failures and of skipped occurrences in a row restart.
keep_op_ms = tonumber(keep_op_ms)
-- include lib/op.lua
-- include lib/place.lua
-- include lib/trouble.lua

local at = find({id})[1]
if not at then
  return answer({'OK', 'NOTFOUND', now_ms, '-'})
elseif at.place == 'quarantine' then
  return answer({'OK', 'QUARANTINED', now_ms, '-'})
elseif at.place == 'ended' then
  return answer({'OK', 'ENDED', now_ms, '-'})
elseif at.place == 'due' then
  return answer({'OK', 'unchanged', now_ms, at.due_ms})
end

local due_ms = at.due_ms
local is_skipping = missed == 'skip' and tonumber(due_ms) <= now_ms
if not is_skipping then
  append('resume', {'id', id, 'lane', at.lane, 'due', due_ms, 'missed', 'fire'})
elseif not at.recurring then
  append('resume', {'id', id, 'lane', at.lane, 'due', due_ms, 'missed', 'skip',
    'first', due_ms, 'last', due_ms, 'count', '1'})
  remove(id, at)
  return answer({'OK', 'skipped', now_ms, '-'})
else
  local version_now = redis.call('HGET', schedule_key, 'version')
  if seen_due_ms ~= due_ms or version_now ~= planned_version
    or now_ms < tonumber(from_ms) or now_ms >= tonumber(until_ms) then
    return {'AGAIN', now_ms}
  end
  local next_due_ms = next_ms == '' and '-' or string.format('%.0f', tonumber(next_ms) + tonumber(jitter_ms))
  append('resume', {'id', id, 'lane', at.lane, 'due', next_due_ms, 'missed', 'skip',
    'first', first_ms, 'last', last_ms, 'count', count, 'nominal', next_ms == '' and '-' or next_ms})
  if next_ms == '' then
    leave(id, at)
    redis.call('HSET', schedule_key, 'ended_at', string.format('%.0f', now_ms))
    redis.call('HDEL', schedule_key, 'nominal')
    trouble.forget(id)
    return answer({'OK', 'skipped', now_ms, '-'})
  end
  due_ms = next_due_ms
  redis.call('HSET', schedule_key, 'nominal', next_ms)
end
trouble.forget(id)
leave(id, at)
wake_if_earlier(at.lane, due_ms)
redis.call('ZADD', lane_keys[at.lane], due_ms, id)
return answer({'OK', 'resumed', now_ms, due_ms})
