-- types: whether a key is what a script takes it for; RQ's keys anybody may have written.
--
-- GIVES  is_a(key, kind), also of one that is not there
local function is_a(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end
