-- archived: report whether an entry of the log is on the disk of an archive.
--
-- KEYS   meta log archivers
-- ARGV   entry           its id; - asks only whether an archive is alive
--        entry_ms        TIME in ms when it was written
--        is_before       1: the entry before this id is asked for, which was the last one at entry_ms; else ''
--        alive_ms        longest time from now to the last report of a live archive, back or (clock set back) ahead
-- RETURNS  OK, word, number of archives that are alive and follow
--        words: archived waiting LOST
-- LOGS   nothing
--
-- archived: an archive reported this entry or a later one, and this log contains both entries (id and t).
-- LOST: this log does not contain the entry. Redis lost it, or it was trimmed long ago.
alive_ms = tonumber(alive_ms)
-- include lib/meta.lua

-- The t of the entry *id* of this log, or nil; also for an id out of range, which only another writer leaves.
local function t_of(id)
  local found = redis.pcall('XRANGE', log_key, id, id)[1]
  return found and found[2][4]
end

local written, is_its
if is_before == '1' then
  local last = redis.pcall('XREVRANGE', log_key, '(' .. entry, '-', 'COUNT', 1)[1]
  local seq_of = function(id) return tonumber(string.match(id, '%d+$')) end
  written = last and last[2][4]
  is_its = last and seq_of(last[1]) + 1 == seq_of(entry) and tonumber(string.sub(written, 1, -4)) <= tonumber(entry_ms)
  entry = last and last[1] or entry
else
  written = entry ~= '-' and t_of(entry)
  is_its = written and string.sub(written, 1, -4) == entry_ms
end
local alive, is_archived = 0, false
local reports = redis.call('HVALS', archivers_key)
for _, report in ipairs(reports) do
  local at, at_t, reported_ms, state = string.match(report, '^(%S+) (%d+) (%d+) (%S+)')
  local is_alive = state == 'following' and math.abs(now_ms - tonumber(reported_ms)) <= alive_ms
  alive = alive + (is_alive and 1 or 0)
  local is_there = written and at and t_of(at) == at_t
  is_archived = is_archived or is_there and redis.call('XRANGE', log_key, entry, at, 'COUNT', 1)[1] ~= nil
end
local is_lost = entry ~= '-' and not is_its
return {'OK', is_lost and 'LOST' or is_archived and 'archived' or 'waiting', alive}
