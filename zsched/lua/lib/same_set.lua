-- same_set: refuse a restore into a data set if the archive never followed its name (rule: NAME).
--
-- USES   meta_key now_ms
--        names  the archive's, by spaces; '' if it knows none
--        is_forced  '1': an operator forces it
-- GIVES  named  the names of the data set, if it has one
--        is_other  it is another data set, and an operator forces the restore
-- RETURNS  OTHER, now ms
--
-- The same rule as is_same_set of core/recovery/difference.py: if the data set or the archive has no name, only people
-- and addresses can decide. The check is in the script that restores, since another data set may come after the
-- comparison.
named = redis.call('HGET', meta_key, 'gen')
is_other = named and names ~= ''
for name in string.gmatch(names, '%S+') do
  is_other = is_other and not string.find(' ' .. named .. ' ', ' ' .. name .. ' ', 1, true)
end
if is_other and is_forced ~= '1' then
  return {'OTHER', now_ms}
end
