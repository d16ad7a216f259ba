-- types: check types of keys, and texts that should be numbers: another program may have written them.
--
-- GIVES  is_a(key, kind), also of a key that is not there; is_ms(text): whole milliseconds, as zsched writes them;
--        whole_of(text): a whole number of at most 15 digits, or nil
local function is_ms(text)
  return type(text) == 'string' and #text <= 16 and string.find(text, '^%-?%d+$') ~= nil
end

local function whole_of(text)
  return type(text) == 'string' and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or nil
end

local function is_a(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end
