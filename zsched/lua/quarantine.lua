-- quarantine: take schedules that cannot be planned out of their lanes, so that they do not block others.
--
-- KEYS   lease meta log @lanes quarantine
-- ARGV   schedule_prefix              as in keys.py
--        @term
--        ...   per schedule: id, word of lib/lanes, due ms, progress, reason
-- RETURNS  OK, now ms, number taken out  |  STALE  |  SERVER
-- LOGS   quarantine: rows = id, "<lane> <due ms>", reason
-- include lib/fence.lua
-- include lib/lanes.lua
-- include lib/rows.lua

local rows, taken = {}, {}
for i = ROWS, #ARGV, 5 do
  local id, word, due_ms, seen_progress, reason = unpack(ARGV, i, i + 4)
  local lane, key = lane_of(word), key_of(word)
  if redis.call('ZSCORE', key, id) == due_ms
    and redis.pcall('HGET', schedule_prefix .. id, 'progress') == seen_progress then
    add_row(rows, id, lane .. ' ' .. due_ms, reason)
    taken[#taken + 1] = {id = id, key = key, lane = lane, due_ms = due_ms, reason = reason}
  end
end
append_rows('quarantine', rows)
for _, one in ipairs(taken) do
  redis.call('ZREM', one.key, one.id)
  park(quarantine_key, one.id, one.lane, one.due_ms, nil, one.reason)
end
return {'OK', now_ms, #taken}
