-- throttled: the words of lib/lanes.lua that may have throttled schedules, in meta.
--
-- USES   meta_key throttled_words
-- GIVES  write_throttled(throttled)  a table by word
function write_throttled(throttled)
  local words = {}
  for word in pairs(throttled) do
    words[#words + 1] = word
  end
  table.sort(words)
  local text = table.concat(words, ' ')
  if text ~= throttled_words then
    redis.call('HSET', meta_key, 'throttled', text)
  end
end
