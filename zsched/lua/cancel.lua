-- cancel: forget a schedule that has not fired.
--
-- KEYS   @schedules @trouble wake op
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        id
--        keep_op_ms      > 0: op holds the reply that long, and a call sent again gets it
-- RETURNS  OK, cancelled or NOTFOUND, now ms
-- LOGS   cancel: id, due
keep_op_ms = tonumber(keep_op_ms)
-- include lib/op.lua
-- include lib/place.lua
-- include lib/trouble.lua

local at = find({id})[1]
if not at then
  return answer({'OK', 'NOTFOUND', now_ms})
end
append('cancel', {'id', id, 'due', at.due_ms or '-'})
remove(id, at)
trouble.forget(id)
return answer({'OK', 'cancelled', now_ms})
