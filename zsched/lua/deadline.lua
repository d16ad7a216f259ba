-- deadline: log that occurrences missed their deadlines, unless another call did since the caller looked.
--
-- KEYS   lease meta log
-- ARGV   @term
--        seen_entry seen_t            id and t of the last entry in the caller's archive
--        logged          meta.deadline, the id of the last entry of this kind, which that archive has; '' for none
--        ...             per occurrence: id of the run that it has or would have, "<deadline ms> <1 if it was pushed,
--                        else 0>", and its state
-- RETURNS  OK, now ms, number of entries  |  STALE  |  SERVER  |  LOST
-- LOGS   deadline: rows = run id, "<deadline ms> <1 if it was pushed, else 0>", state
-- include lib/fence.lua
-- include lib/same_history.lua
-- include lib/rows.lua

local rows = {}
if (redis.call('HGET', meta_key, 'deadline') or '') == logged then
  for i = ROWS, #ARGV, 3 do
    add_row(rows, ARGV[i], ARGV[i + 1], ARGV[i + 2])
  end
end
local entry = append_rows('deadline', rows)
if entry then
  redis.call('HSET', meta_key, 'deadline', entry)
end
return {'OK', now_ms, #rows}
