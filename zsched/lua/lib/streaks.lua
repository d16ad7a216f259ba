-- streaks: count a schedule's failed runs in a row, and pause the schedule at its limit.
--
-- USES   paused_key
-- GIVES  count(id, run, verdict), decide_pauses(), pause_failing() -> list of the schedules that it paused
--
-- Failures are counted only for a schedule with pause_after. A pause resets the count, so a resumed schedule has as
-- many attempts again. The first two functions only read: call them before the first write, and pause_failing after
-- the entry with the ends of the runs.
-- include lib/place.lua
local streaks, last_runs, failing = {}, {}, {}

local function count(id, run, verdict)
  if verdict == '-' then
    return
  end
  local most = redis.pcall('HGET', schedule_prefix .. id, 'pause_after')
  most = type(most) == 'string' and tonumber(most) or nil
  if most then
    local streak = streaks[id]
      or {failures = tonumber(redis.call('HGET', schedule_prefix .. id, 'failures') or '') or 0, most = most}
    streak.failures = verdict == '!' and streak.failures + 1 or 0
    streaks[id], last_runs[id] = streak, run
  end
end

local function decide_pauses()
  for id, streak in pairs(streaks) do
    local at = streak.failures >= streak.most and find({id})[1]
    failing[id] = at and at.place == 'due' and at or nil
  end
end

local function pause_failing()
  local done = {}
  for id, streak in pairs(streaks) do
    local at = failing[id]
    if at then
      local note = string.format('%.0f', streak.failures) .. ' failures in a row, the last of run ' .. last_runs[id]
      append('pause', {'note', note, 'rows', 1, id, at.lane .. ' ' .. at.due_ms})
      leave(id, at)
      park(paused_key, id, at.lane, at.due_ms, nil, note)
      streak.failures = 0
      done[#done + 1] = id
    end
    redis.call('HSET', schedule_prefix .. id, 'failures', string.format('%.0f', streak.failures))
  end
  return done
end
