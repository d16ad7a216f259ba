-- adopt: add a name to a data set that now has all the data of an archive with that name.
--
-- KEYS   meta log
-- ARGV   gen             the name
-- RETURNS  OK, names of the data set
-- LOGS   nothing
-- include lib/meta.lua

local names = redis.call('HGET', meta_key, 'gen')
if not names then
  names = gen
elseif not string.find(' ' .. names .. ' ', ' ' .. gen .. ' ', 1, true) then
  names = names .. ' ' .. gen
end
redis.call('HSET', meta_key, 'gen', names)
return {'OK', names}
