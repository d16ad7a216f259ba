-- report: note an archive's position, which must be on its disk.
--
-- KEYS   meta archivers
-- ARGV   archive         its id
--        entry entry_t   id and t of the last entry that it has; - and 0 when it has none
--        state           following | bootstrapping | lost | failed | refused | outdated | stopped
--        about           one line of JSON: for people
--        hold_for_ms     > 0: nothing fires for so long, as it is not known what Redis lost
-- RETURNS  OK, now ms
-- LOGS   nothing
--
-- It works in any format: an older archive that stops before a newer format has to report it.
-- include lib/hold_on.lua

redis.call('HSET', archivers_key, archive,
  table.concat({entry, entry_t, string.format('%.0f', now_ms), state, about}, ' '))
hold_on(tonumber(hold_for_ms))
return {'OK', now_ms}
