-- report: say how far an archive has come; what it says must be on its disk.
--
-- KEYS   meta log archivers
-- ARGV   archive         its id
--        entry entry_t   id and t of the last entry that it has; - and 0 when it has none
--        state           following | bootstrapping | failed | refused
--        about           one line of JSON: for people
-- RETURNS  OK, now ms
-- LOGS   nothing
local meta_key, log_key, archivers_key = unpack(KEYS)
local archive, entry, entry_t, state, about = unpack(ARGV)
-- include lib/meta.lua

redis.call('HSET', archivers_key, archive,
  table.concat({entry, entry_t, string.format('%.0f', now_ms), state, about}, ' '))
return {'OK', now_ms}
