-- untrusted: check what another program may have written: types of keys, numbers, texts for an entry or a reply.
--
-- GIVES  is_a(key, kind)  true also if the key does not exist
--        is_ms(text)  whole milliseconds, as zsched writes them
--        whole_of(text)  a whole number of at most 15 digits, or nil
--        word_of(text)  a status: letters and _, 20 at most; any other text gives `odd`, and nil gives nil
--        name_of(text)  a name or key: 200 bytes at most, `?` for spaces and control characters
--        line_of(text)  1,000 bytes at most, `?` for control characters
--        time_of(text)  a time of RQ's: 40 bytes at most, `?` for characters that no time has
--
-- A program with write access to rq:job:* may have no access to the log: an unchecked text could forge the words of an
-- entry, or fill it.
function is_ms(text)
  return type(text) == 'string' and #text <= 16 and string.find(text, '^%-?%d+$') ~= nil
end

function whole_of(text)
  return type(text) == 'string' and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or nil
end

function is_a(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end

local function cleaned(text, most, odd)
  if not text or #text <= most and not string.find(text, odd) then
    return text  -- the usual case: to search is quicker than to replace
  end
  return (string.gsub(string.sub(text, 1, most), odd, '?'))
end

function word_of(text)
  return text and (#text <= 20 and string.find(text, '^[%a_]+$') and text or 'odd') or nil
end

function name_of(text)
  return cleaned(text, 200, '[%c%s]')
end

function line_of(text)
  return cleaned(text, 1000, '%c')
end

function time_of(text)
  return cleaned(text, 40, '[^%w:.+-]')
end
