-- deadline: log that occurrences missed their deadlines, unless another call did since the caller looked.
--
-- KEYS   lease meta log
-- ARGV   @term
--        seen            meta.deadline: the id of the last entry of this kind, which the caller's archive has; '' for none
--        ...             per occurrence: id of the run that it has or would have, "<deadline ms> <1 if it was pushed,
--                        else 0>", and its state
-- RETURNS  OK, now ms, number of entries  |  STALE  |  SERVER
-- LOGS   deadline: rows = run id, "<deadline ms> <1 if it was pushed, else 0>", state
-- include lib/fence.lua
-- include lib/rows.lua

local rows = {}
if (redis.call('HGET', meta_key, 'deadline') or '') == seen then
  for i = ROWS, #ARGV, 3 do
    add_row(rows, ARGV[i], ARGV[i + 1], ARGV[i + 2])
  end
end
local entry = append_rows('deadline', rows)
if entry then
  redis.call('HSET', meta_key, 'deadline', entry)
end
return {'OK', now_ms, #rows}
