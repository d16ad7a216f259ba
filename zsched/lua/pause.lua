-- pause: take schedules out of their lanes, keeping lane and due time.
--
-- KEYS   @schedules @trouble wake
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        note            why, one line
--        ...             ids, each once
-- RETURNS  OK, now ms, then per id: paused unchanged NOTFOUND QUARANTINED ENDED
-- LOGS   pause: note, rows = id, "<lane> <due>"
--
-- In the hash of paused schedules a unit separator and `by` follow the note, which has no control characters. A pause
-- with the same note changes nothing, whoever asks.
-- include lib/place.lua
-- include lib/trouble.lua

local ids = {unpack(ARGV, ROWS)}
local found, paused, fields, reply = find(ids), {}, {'note', note, 'rows', 0}, {'OK', now_ms}
for n, id in ipairs(ids) do
  local at, word = found[n], 'paused'
  if not at then
    word = 'NOTFOUND'
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
  leave(id, at)
  park(paused_key, id, at.lane, at.due_ms, at.since_ms, by == '' and note or note .. '\31' .. by)
  trouble.forget(id)
end
return reply
