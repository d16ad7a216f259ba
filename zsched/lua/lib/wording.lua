-- wording: texts of a job for an entry or a reply.
--
-- GIVES  line_of(text)  1,000 bytes at most, `?` for control characters
--        time_of(text)  a time of RQ's: 40 bytes at most, `?` for characters that no time has
-- include lib/untrusted.lua
function line_of(text)
  return cleaned(text, 1000, '%c')
end

function time_of(text)
  return cleaned(text, 40, '[^%w:.+-]')
end
