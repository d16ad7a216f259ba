-- holds: decide whether a hash has what a put asks for. Another program may have changed it, and a put repairs that.
--
-- GIVES  holds(key, asked, count, others, data, name)  true if the hash at *key* has the *count* fields *asked*, by
--          name, and the *data* of a row, if given, with its signature *name* (`data`: none); and besides only fields
--          of *others*, whose functions allow their values
function holds(key, asked, count, others, data, name)
  local signature = data and name ~= 'data' and name
  local texts = redis.call('HGETALL', key)
  count = count + (data and 1 or 0) + (signature and 1 or 0)
  for i = 1, #texts, 2 do
    local field, value = texts[i], texts[i + 1]
    local wanted = asked[field] or field == 'data' and data or field == 'zs_sig' and signature
    if wanted == value then
      count = count - 1
    elseif wanted or not others[field] or not others[field](value) then
      return false
    end
  end
  return count == 0
end
