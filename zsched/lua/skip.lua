-- skip: leave out occurrences to come of a recurring schedule, or take that back.
--
-- KEYS   @schedules @trouble wake op
-- ARGV   schedule_prefix run_suffix    as in keys.py
--        by              who asks, for the log; or ''
--        note            why, one line
--        id
--        seen_version seen_nominal_ms   of the schedule by which the caller planned
--        from_ms until_ms   the plan holds while from_ms <= TIME < until_ms
--        nominal_ms due_ms   the next occurrence by the plan
--        skips           all skips by the plan, as words of lib/state.lua
--        passed          the record of excluded occurrences up to the next one, as in advance
--        verb            skip | take_back
--        times           the occurrences in question: ms by commas
-- RETURNS  OK, now ms, a word: done, AGAIN (read and plan once more)
-- LOGS   skip: note, rows = id, "<verb> <times> <next nominal> <next due> <state> <passed>"
--
-- The schedule is in a lane or paused. If no occurrence is left, its time stays: the leader records it as skipped, and
-- the schedule ends.
-- include lib/op.lua
-- include lib/version.lua
-- include lib/state.lua
-- include lib/wake.lua

local at = find({id})[1]
local progress = at and at.recurring and progress_of(id)
if not progress or at.place ~= 'due' and at.place ~= 'paused' or progress.version ~= seen_version
  or progress.nominal_ms ~= seen_nominal_ms or now_ms < tonumber(from_ms) or now_ms >= tonumber(until_ms) then
  return {'OK', now_ms, 'AGAIN'}
end

local counts = with_count(progress.state, 'skip', 0)
local state = counts .. (counts ~= '' and skips ~= '' and ',' or '') .. skips
local words = table.concat({verb, times, nominal_ms, due_ms, state_word(state), passed}, ' ')
append('skip', {'note', note, 'rows', 1, id, words})
touch(id, at)
change_progress(id, {nominal_ms = nominal_ms, state = state})
if at.place == 'paused' then
  park(paused_key, id, at.lane, due_ms, at.since_ms, at.note)
elseif nominal_ms ~= seen_nominal_ms then
  leave(id, at)
  enter(at.lane, {due_ms, id})
end
return answer({'OK', now_ms, 'done'})
