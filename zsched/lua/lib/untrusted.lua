-- untrusted: check what another program may have written. Its texts could forge the words of an entry, or fill it.
--
-- GIVES  is_a(key, kind)  true also if the key does not exist
--        whole_of(text)  a whole number of at most 15 digits, or nil
--        word_of(text)  a status: letters and _, 20 at most; any other text gives `odd`, and nil gives nil
--        name_of(text)  a name or key: 200 bytes at most, `?` for spaces and control characters
--        cleaned(text, most, odd)  at most so many bytes, `?` for what matches the pattern *odd*
function whole_of(text)
  return type(text) == 'string' and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or nil
end

function is_a(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end

function cleaned(text, most, odd)
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
