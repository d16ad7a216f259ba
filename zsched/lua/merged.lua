-- merged: say that nothing of these histories is missing in this one.
--
-- KEYS   meta log
-- ARGV   seen_entry seen_t   the log's end up to which the caller compared; - and 0 when it is empty
--        archive         id of the archive that knows them
--        names           of data sets that it followed, by blanks; '' when it knows none, or just follows this one
--        is_forced       1: also in a data set with another name
--        ...             of each history's end two texts: entry id, t
-- RETURNS  OK, now ms, the entry's id and t  |  AGAIN, now ms  |  OTHER, now ms
-- LOGS   merged: archive · rows = entry id, t
-- include lib/meta.lua
-- include lib/same_set.lua
-- include lib/seen.lua

local fields = {'archive', archive, 'rows', (#ARGV - ROWS + 1) / 2}
for i = ROWS, #ARGV do
  fields[#fields + 1] = ARGV[i]
end
local entry = append('merged', fields)
return {'OK', now_ms, entry, t}
