-- merged: record that this history has everything of other histories.
--
-- KEYS   meta log
-- ARGV   seen_entry seen_t   the log's end up to which the caller compared; - and 0 when it is empty
--        archive         id of the archive that has the other histories
--        names           of data sets that it followed, by spaces; '' if it knows no name, or only follows this one
--        is_forced       1: also in a data set with another name
--        ...             two texts for the end of each history: entry id, t
-- RETURNS  OK, now ms, the entry's id and t  |  AGAIN, now ms  |  OTHER, now ms
-- LOGS   merged: archive · rows = entry id, t
-- include lib/meta.lua
-- include lib/same_set.lua
-- include lib/seen.lua
-- include lib/loss.lua
-- include lib/texts.lua

local fields = {'archive', archive, 'rows', (#ARGV - ROWS + 1) / 2}
local entry = append('merged', texts_at(ROWS, #ARGV + 1, fields))
note_loss()
return {'OK', now_ms, entry, t}
