-- cancel: forget schedules that have not fired.
--
-- KEYS   @schedules @trouble wake op
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        keep_op_ms      > 0: op holds the reply that long, and a call sent again gets it
--        ...             ids, each once
-- RETURNS  OK, now ms, then per id: cancelled or NOTFOUND
-- LOGS   cancel: rows = id, due
keep_op_ms = tonumber(keep_op_ms)
-- include lib/op.lua
-- include lib/place.lua
-- include lib/trouble.lua

local ids = {unpack(ARGV, ROWS)}
local found, rows, reply = find(ids), {}, {'OK', now_ms}
for n, id in ipairs(ids) do
  if found[n] then
    add_row(rows, id, found[n].due_ms or '-')
  end
  reply[#reply + 1] = found[n] and 'cancelled' or 'NOTFOUND'
end
append_rows('cancel', rows)
for n, id in ipairs(ids) do
  if found[n] then
    remove(id, found[n])
    trouble.forget(id)
  end
end
return answer(reply)
