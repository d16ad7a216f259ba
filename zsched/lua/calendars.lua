-- calendars: put or delete calendars: the times that schedules of this namespace exclude by a name.
--
-- KEYS   @schedules calendars
-- ARGV   by              who asks, for the log; or ''
--        is_restored     1: after a loss; only a change that is later than the present one counts
--        ...             per calendar three texts: its name; t of the change in µs, or - for now; and the text of
--                        core/triggers/calendar_definition.py, or - to delete it
-- RETURNS  OK, now ms, then per calendar a word: created updated deleted unchanged NOTFOUND
-- LOGS   calendars: rows = name, t, text
--
-- A deleted calendar leaves its t behind, so that no older state of it returns with a restore. meta.calendars is the
-- last entry: the leader plans anew what names a changed calendar.
-- include lib/meta.lua
-- include lib/rows.lua

local rows, writes, reply = {}, {}, {'OK', now_ms}
for i = ROWS, #ARGV, 3 do
  local name, at, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local held_t, held = string.match(redis.call('HGET', calendars_key, name) or '', '^(%d+) (.*)$')
  local is_held, is_old = held and held ~= '-', is_restored == '1' and held and tonumber(held_t) >= tonumber(at)
  local word = text == '-' and (is_held and 'deleted' or 'NOTFOUND') or is_held and 'updated' or 'created'
  if is_old or held == text and word ~= 'NOTFOUND' then
    word = 'unchanged'
  elseif word ~= 'NOTFOUND' or is_restored == '1' then
    at = at == '-' and t or at
    add_row(rows, name, at, text)
    writes[#writes + 1], writes[#writes + 2] = name, at .. ' ' .. text
  end
  reply[#reply + 1] = word
end
local entry = append_rows('calendars', rows)
if entry then
  redis.call('HSET', calendars_key, unpack(writes))
  redis.call('HSET', meta_key, 'calendars', entry)
end
return reply
