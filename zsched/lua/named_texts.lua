-- named_texts: put or delete texts that this namespace has by a name: calendars and known failures.
--
-- KEYS   @schedules named_texts
-- ARGV   by              who asks, for the log; or ''
--        is_restored     1: after a loss; only a change that is later than the present one counts
--        ...             per text three: its name, calendar:<name> or known_failure:<name>; t of the change in µs, or -
--                        for now; and the text (core/triggers/calendar_definition.py, core/known.py), or - to delete it
-- RETURNS  OK, now ms, then per text a word: created updated deleted unchanged NOTFOUND
-- LOGS   named_texts: rows = name, t, text
--
-- A deleted text leaves its t behind, so that no older state of it returns with a restore. meta.calendars is the last
-- entry with a calendar: the leader plans anew what names a changed one.
-- include lib/meta.lua
-- include lib/rows.lua

local rows, writes, reply, has_calendar = {}, {}, {'OK', now_ms}, false
for i = ROWS, #ARGV, 3 do
  local name, at, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local held_t, held = string.match(redis.call('HGET', named_texts_key, name) or '', '^(%d+) (.*)$')
  local is_held, is_old = held and held ~= '-', is_restored == '1' and held and tonumber(held_t) >= tonumber(at)
  local word = text == '-' and (is_held and 'deleted' or 'NOTFOUND') or is_held and 'updated' or 'created'
  if is_old or held == text and word ~= 'NOTFOUND' then
    word = 'unchanged'
  elseif word ~= 'NOTFOUND' or is_restored == '1' then
    at = at == '-' and t or at
    add_row(rows, name, at, text)
    writes[#writes + 1], writes[#writes + 2] = name, at .. ' ' .. text
    has_calendar = has_calendar or string.sub(name, 1, 9) == 'calendar:'
  end
  reply[#reply + 1] = word
end
local entry = append_rows('named_texts', rows)
if entry then
  redis.call('HSET', named_texts_key, unpack(writes))
end
if has_calendar then
  redis.call('HSET', meta_key, 'calendars', entry)
end
return reply
