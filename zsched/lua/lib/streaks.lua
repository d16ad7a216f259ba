-- streaks: count a schedule's failed runs in a row, and pause the schedule at its limit.
--
-- USES   schedule_prefix paused_key failing_key
-- GIVES  count(id, run, verdict)
--        decide_pauses()
--        pause_failing()  list of the schedules that it paused
--
-- Failures are counted for each recurring schedule; only one with pause_after has a limit. A pause resets the count, so
-- a resumed schedule has as many attempts again. The first two functions only read: call them before the first write,
-- and pause_failing after the entry with the ends of the runs.
-- include lib/place.lua
-- include lib/states.lua
local streaks, last_runs, failing = {}, {}, {}
local is_any

local function failures_of(id)
  if is_any == nil then  -- most often there is none: one question for all runs of a call
    is_any = redis.call('ZCARD', failing_key) > 0
  end
  return is_any and tonumber(redis.call('ZSCORE', failing_key, id) or '') or 0
end

function count(id, run, verdict)
  if verdict == '-' or verdict == '+' and streaks[id] == nil and failures_of(id) == 0 then
    return
  elseif streaks[id] == nil then
    local own = redis.pcall('HMGET', schedule_prefix .. id, 'version', 'ended_at', 'pause_after', 'state')
    streaks[id] = not own.err and own[1] and {failures = count_in(own[4], 'failures'), has_ended = own[2],
      most = tonumber(own[3] or ''), state = own[4] or ''}
  end
  local streak = streaks[id]
  if streak then  -- a recurring schedule; one that has ended fails no more
    streak.failures = verdict == '!' and not streak.has_ended and streak.failures + 1 or 0
    last_runs[id] = run
  end
end

function decide_pauses()
  for id, streak in pairs(streaks) do
    local at = streak and streak.most and streak.failures >= streak.most and find({id})[1]
    failing[id] = at and at.place == 'due' and at or nil
    local state = streak and not failing[id] and with_count(streak.state, 'failures', streak.failures)
    if state and state ~= streak.state then
      change_state(id, state)
    end
  end
end

function pause_failing()
  local done = {}
  write_states()
  for id, at in pairs(failing) do
    local note = string.format('%.0f', streaks[id].failures) .. ' failures in a row, the last of run ' .. last_runs[id]
    append('pause', {'note', note, 'rows', 1, id, at.lane .. ' ' .. at.due_ms})
    leave(id, at)
    park(paused_key, id, at.lane, at.due_ms, nil, note)
    forget_state(id)
    done[#done + 1] = id
  end
  return done
end
