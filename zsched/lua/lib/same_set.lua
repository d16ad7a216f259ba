-- same_set: restore nothing into a data set whose name the archive never followed (rule: NAME).
--
-- USES   meta_key now_ms; names = the archive's, by blanks, '' when it knows none; is_forced = '1': people want it
-- GIVES  named = the names of the data set, if it has one; is_other: it is such a data set, and people
--        want it; or the reply OTHER
--
-- As is_same_set of core/difference.py: where one of them has no name, only people and addresses tell. It is looked at
-- where things are put back, since another data set may have come after the comparison.
local is_other = false
local named = redis.call('HGET', meta_key, 'gen')
if named and names ~= '' then
  is_other = true
  for name in string.gmatch(names, '%S+') do
    is_other = is_other and not string.find(' ' .. named .. ' ', ' ' .. name .. ' ', 1, true)
  end
  if is_other and is_forced ~= '1' then
    return {'OTHER', now_ms}
  end
end
