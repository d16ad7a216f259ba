-- trim: forget the oldest part of the log.
--
-- KEYS   lease meta log archivers
-- ARGV   @term
--        first_kept      id of an entry that stays, with all after it
--        limit           most entries forgotten by one call
--        silent_ms       older reports of archives are forgotten too
-- RETURNS  OK, number of entries forgotten  |  STALE  |  SERVER
-- LOGS   nothing
--
-- Whole nodes of the stream are removed at a time, so a few more entries may stay.
-- include lib/fence.lua

local reports = redis.call('HGETALL', archivers_key)
local forgotten = redis.call('XTRIM', log_key, 'MINID', '~', first_kept, 'LIMIT', limit)
for i = 1, #reports, 2 do
  local told_ms = string.match(reports[i + 1], '^%S+ %S+ (%d+)')
  if not told_ms or now_ms - tonumber(told_ms) > tonumber(silent_ms) then
    redis.call('HDEL', archivers_key, reports[i])
  end
end
return {'OK', forgotten}
