-- merged: say that nothing of these histories is missing in this one.
--
-- KEYS   meta log
-- ARGV   seen_entry seen_t   the log's end up to which the caller compared; - and 0 when it is empty
--        archive         id of the archive that knows them
--        names           of data sets that it followed, by blanks; '' when it knows none, or just follows this one
--        is_forced       1: also in a data set with another name
--        positions       "<entry id> <t>" of each history's end, by newlines
-- RETURNS  OK, now ms, the entry's id and t  |  AGAIN, now ms  |  OTHER, now ms
-- LOGS   merged: archive, positions
-- include lib/meta.lua
-- include lib/same_set.lua
-- include lib/seen.lua

local entry = append('merged', {'archive', archive, 'positions', positions})
return {'OK', now_ms, entry, t}
