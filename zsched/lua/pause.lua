-- pause: take schedules out of their lanes, keeping lane and due time.
--
-- KEYS   @schedules @trouble op
-- ARGV   schedule_prefix run_suffix    as in keys.py
--        by              who asks, for the log; or ''
--        keep_op_ms      > 0: op holds the reply that long, and a call sent again gets it
--        seen_version    pause only a schedule of this version; '' in any case
--        note            why, one line
--        ...             ids, each once
-- RETURNS  OK, now ms, then per id: paused unchanged NOTFOUND QUARANTINED ENDED CHANGED:<present version>
-- LOGS   pause: note, rows = id, "<lane> <due>"
--
-- In the hash of paused schedules a unit separator and `by` follow the note, which has no control characters. A pause
-- with the same note changes nothing, whoever asks.
keep_op_ms = tonumber(keep_op_ms)
-- include lib/op.lua
-- include lib/version.lua
-- include lib/state.lua

local ids = {unpack(ARGV, ROWS)}
local found, paused, fields, reply = find(ids), {}, {'note', note, 'rows', 0}, {'OK', now_ms}
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
  elseif at.place == 'paused' and string.match(at.note, '^[^\31]*') == note then
    word = 'unchanged'
  else
    paused[id] = at
    fields[4], fields[#fields + 1], fields[#fields + 2] = fields[4] + 1, id, at.lane .. ' ' .. at.due_ms
  end
  reply[#reply + 1] = word
end
if next(paused) then
  append('pause', fields)
end
for id, at in pairs(paused) do
  touch(id, at)
  leave(id, at)
  park(paused_key, id, at.lane, at.due_ms, at.since_ms, by == '' and note or note .. '\31' .. by)
  forget_counts(id)
end
return answer(reply)
