-- replan: move waiting schedules to their times by new zone rules or calendars, and note the version of these.
--
-- KEYS   lease @schedules
-- ARGV   schedule_prefix              as in keys.py
--        @term
--        meta_field                   with the version: tzdata or planned_calendars
--        plans_by                     the version that the leader plans with
--        is_done                      1: from now on all schedules are planned with it
--        ...   per schedule seven texts: id, version, due ms, nominal ms, new nominal ms, new due ms, and the record of
--              excluded occurrences, as in advance
-- RETURNS  OK, now ms, version that all were planned with before or '', then per schedule a word: moved changed
--          |  STALE  |  SERVER
-- LOGS   replan: of = meta_field · old, new = the two versions
--        rows = id, "<nominal ms> <new nominal ms> <new due ms> <passed>"
--
-- A schedule that changed since it was read, in a lane or paused, is left alone (changed). Without rows nothing moves.
-- include lib/fence.lua
-- include lib/find.lua
-- include lib/progress.lua
-- include lib/rows.lua

local before = redis.call('HGET', meta_key, meta_field) or ''
local reply, ids, moves = {'OK', now_ms, before}, {}, {}
local rows = {head = {'of', meta_field, 'old', before, 'new', plans_by, 'rows', 0}}
for i = ROWS, #ARGV, 7 do
  ids[#ids + 1] = ARGV[i]
end
local found = #ids > 0 and find(ids)
for n, id in ipairs(ids) do
  local at, first = found[n], ROWS + 7 * (n - 1)
  local planned_version, due_ms, nominal_ms, new_nominal_ms, new_due_ms, passed = unpack(ARGV, first + 1, first + 6)
  local progress = progress_of(id) or {}
  if at and at.recurring and (at.place == 'due' or at.place == 'paused') and at.due_ms == due_ms
    and progress.version == planned_version and progress.nominal_ms == nominal_ms then
    moves[#moves + 1] = {id = id, at = at, nominal_ms = new_nominal_ms, due_ms = new_due_ms}
    add_row(rows, id, table.concat({nominal_ms, new_nominal_ms, new_due_ms, passed}, ' '))
    reply[#reply + 1] = 'moved'
  else
    reply[#reply + 1] = 'changed'
  end
end
append_rows('replan', rows)

for _, one in ipairs(moves) do
  local at = one.at
  change_progress(one.id, {nominal_ms = one.nominal_ms})
  if at.place == 'due' then
    redis.call('ZADD', at.key, one.due_ms, one.id)
  else
    park(paused_key, one.id, at.lane, one.due_ms, at.since_ms, at.note)
  end
end
if is_done == '1' and before ~= plans_by then
  redis.call('HSET', meta_key, meta_field, plans_by)
end
return reply
