-- hash: read a hash of RQ, at whose key another program may have written another type.
--
-- GIVES  read_hash(key, ...)  the values of these fields; with `err` if the key is of another type
function read_hash(key, ...)
  local values = redis.pcall('HMGET', key, ...)
  if values.err and not string.find(values.err, 'WRONGTYPE', 1, true) then
    redis.call('HMGET', key, ...)  -- for example no permission to read: this ends the script
  end
  return values
end
