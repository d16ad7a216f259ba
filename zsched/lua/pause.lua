-- pause: take a schedule out of its lane, keeping lane and due time.
--
-- KEYS   @schedules @trouble wake
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        id
--        note            why, one line
-- RETURNS  OK, word, now ms
--        words: paused unchanged NOTFOUND QUARANTINED ENDED
-- LOGS   pause: id, lane, due, note
--
-- In the hash of paused schedules a unit separator and `by` follow the note, which has no control characters. A pause
-- with the same note changes nothing, whoever asks.
-- include lib/place.lua
-- include lib/trouble.lua

local at = find({id})[1]
if not at then
  return {'OK', 'NOTFOUND', now_ms}
elseif at.place == 'quarantine' then
  return {'OK', 'QUARANTINED', now_ms}
elseif at.place == 'ended' then
  return {'OK', 'ENDED', now_ms}
elseif at.place == 'paused' and string.match(at.note, '^[^\31]*') == note then
  return {'OK', 'unchanged', now_ms}
end
append('pause', {'id', id, 'lane', at.lane, 'due', at.due_ms, 'note', note})
leave(id, at)
park(paused_key, id, at.lane, at.due_ms, at.since_ms, by == '' and note or note .. '\31' .. by)
trouble.forget(id)
return {'OK', 'paused', now_ms}
