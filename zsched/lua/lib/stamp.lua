-- stamp: the time of a change, as RQ writes times.
--
-- GIVES  stamp(ms, number)  a time within the millisecond before *ms*, at a microsecond by the *number* of an entry
-- include lib/iso.lua
function stamp(ms, number)
  return string.sub(iso(ms - 1), 1, 23) .. string.format('%03dZ', number % 999 + 1)
end
