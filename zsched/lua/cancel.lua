-- cancel: forget a schedule that has not fired.
--
-- KEYS   meta log due_high due_normal due_low paused quarantine recurring wake op
-- ARGV   schedule_prefix template_prefix run_suffix   as in keys.py
--        id
--        keep_op_ms      > 0: op holds the reply that long, and a call sent again gets it
-- RETURNS  OK, cancelled or NOTFOUND, now ms
-- LOGS   cancel: id, due
local meta_key, log_key, due_high_key, due_normal_key, due_low_key, paused_key, quarantine_key,
  recurring_key, wake_key, op_key = unpack(KEYS)
local schedule_prefix, template_prefix, run_suffix, id, keep_op_ms = unpack(ARGV)
keep_op_ms = tonumber(keep_op_ms)
-- include lib/rq.lua
-- include lib/meta.lua
-- include lib/op.lua
-- include lib/find.lua
-- include lib/place.lua

local at = find({id})[1]
if not at then
  return answer({'OK', 'NOTFOUND', now_ms})
end
append('cancel', {'id', id, 'due', at.due_ms or '-'})
remove(id, at)
return answer({'OK', 'cancelled', now_ms})
