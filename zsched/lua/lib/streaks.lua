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
    local progress = progress_of(id)
    local own = progress and redis.call('HMGET', schedule_prefix .. id, 'ended_at', 'pause_after')
    streaks[id] = progress and {failures = count_in(progress.state, 'failures'), has_ended = own[1],
      most = tonumber(own[2] or ''), state = progress.state}
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
    local entry = append('pause', {'note', note, 'rows', 1, id, at.lane .. ' ' .. at.due_ms})
    change_progress(id, {version = entry .. '-' .. t})
    leave(id, at)
    park(paused_key, id, at.lane, at.due_ms, nil, note)
    forget_counts(id)
    done[#done + 1] = id
  end
  return done
end
