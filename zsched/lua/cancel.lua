-- cancel: forget schedules that have not fired.
--
-- KEYS   @schedules @trouble op
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        seen_version    cancel only a schedule of this version; '' in any case
--        ...             ids, each once
-- RETURNS  OK, now ms, then per id: cancelled NOTFOUND CHANGED:<present version>
-- LOGS   cancel: rows = id, due
-- include lib/op.lua
-- include lib/version.lua
-- include lib/remove.lua
-- include lib/rows.lua

local ids = {unpack(ARGV, ROWS)}
local found, rows, reply = find(ids), {}, {'OK', now_ms}
for n, id in ipairs(ids) do
  local at, word = found[n], 'cancelled'
  if not at then
    word = 'NOTFOUND'
  elseif seen_version ~= '' and version_of(id, at) ~= seen_version then
    word, found[n] = 'CHANGED:' .. version_of(id, at), false
  else
    add_row(rows, id, at.due_ms or '-')
  end
  reply[#reply + 1] = word
end
append_rows('cancel', rows)
for n, id in ipairs(ids) do
  if found[n] then
    remove(id, found[n])
  end
end
return answer(reply)
