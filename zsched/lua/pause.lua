-- pause: take a schedule out of its lane, keeping lane and due time.
--
-- KEYS   meta log due_high due_normal due_low paused quarantine recurring wake
-- ARGV   schedule_prefix template_prefix run_suffix   as in keys.py
--        id
--        note            why, one line
-- RETURNS  OK, word, now ms
--        words: paused unchanged NOTFOUND QUARANTINED ENDED
-- LOGS   pause: id, lane, due, note
local meta_key, log_key, due_high_key, due_normal_key, due_low_key, paused_key, quarantine_key,
  recurring_key, wake_key = unpack(KEYS)
local schedule_prefix, template_prefix, run_suffix, id, note = unpack(ARGV)
-- include lib/rq.lua
-- include lib/meta.lua
-- include lib/find.lua
-- include lib/place.lua

local at = find({id})[1]
if not at then
  return {'OK', 'NOTFOUND', now_ms}
elseif at.place == 'quarantine' then
  return {'OK', 'QUARANTINED', now_ms}
elseif at.place == 'ended' then
  return {'OK', 'ENDED', now_ms}
elseif at.place == 'paused' and at.note == note then
  return {'OK', 'unchanged', now_ms}
end
append('pause', {'id', id, 'lane', at.lane, 'due', at.due_ms, 'note', note})
leave(id, at)
park(paused_key, id, at.lane, at.due_ms, at.since_ms, note)
return {'OK', 'paused', now_ms}
