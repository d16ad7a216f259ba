-- pause: take schedules out of their lanes, keeping lane and due time.
--
-- KEYS   @schedules @trouble resumes op
-- ARGV   schedule_prefix run_suffix    as in keys.py
--        by              who asks, for the log; or ''
--        seen_version    pause only a schedule of this version; '' in any case
--        note            why, one line
--        until_ms        the leader resumes it then, without the occurrences until then; '' if somebody will
--        ...             ids, each once
-- RETURNS  OK, now ms, then per id: paused unchanged NOTFOUND QUARANTINED ENDED OVER CHANGED:<present version>
-- LOGS   pause: note, until in ms if it has an end, rows = id, "<lane> <due>"
--
-- In the hash of paused schedules `by` and until_ms follow the note, which has no control characters, each behind a
-- unit separator. A pause with the same note and end changes nothing, whoever asks.
-- include lib/op.lua
-- include lib/version.lua
-- include lib/rows.lua
-- include lib/state.lua

local ids = {unpack(ARGV, ROWS)}
local found, paused, reply = find(ids), {}, {'OK', now_ms}
local rows = {head = until_ms == '' and {'note', note, 'rows', 0} or {'note', note, 'until', until_ms, 'rows', 0}}
local text = note .. (by .. until_ms ~= '' and '\31' .. by or '') .. (until_ms ~= '' and '\31' .. until_ms or '')
for n, id in ipairs(ids) do
  local at, word = found[n], 'paused'
  if not at then
    word = 'NOTFOUND'
  elseif seen_version ~= '' and version_of(id, at) ~= seen_version then
    word = 'CHANGED:' .. version_of(id, at)
  elseif at.place == 'quarantine' then
    word = 'QUARANTINED'
  elseif at.place == 'ended' then
    word = 'ENDED'
  elseif until_ms ~= '' and tonumber(until_ms) <= now_ms then
    word = 'OVER'
  elseif at.place == 'paused' and string.match(at.note, '^[^\31]*') == note and (at.until_ms or '') == until_ms then
    word = 'unchanged'
  else
    paused[id] = at
    add_row(rows, id, at.lane .. ' ' .. at.due_ms)
  end
  reply[#reply + 1] = word
end
append_rows('pause', rows)
for id, at in pairs(paused) do
  touch(id, at)
  leave(id, at)
  park(paused_key, id, at.lane, at.due_ms, at.since_ms, text)
  if until_ms ~= '' then
    redis.call('ZADD', resumes_key, until_ms, id)
  end
  forget_counts(id)
end
return answer(reply)
