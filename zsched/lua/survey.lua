-- survey: return the actions that chains of runs need. Writes nothing.
--
-- KEYS   meta log chains rq_queues rq_limits deadlines
-- ARGV   cursor          0, then the cursor of the last reply
--        count           chains to look at, about
-- RETURNS  OK, cursor (0: that was all), then per chain that needs an action, joined by \0: its schedule's id, the
--          action in a word, the run to release or -, urgent or - (then RQ may still do it itself), and why
-- LOGS   nothing
--
-- The reply has a text per chain, for the reason given in look.lua.
-- include lib/meta.lua
-- include lib/overlap.lua

if redis.call('TYPE', chains_key).ok ~= 'hash' then
  return {'OK', '0'}
end

local page = redis.call('HSCAN', chains_key, cursor, 'COUNT', count)
local reply = {'OK', page[1]}
for i = 1, #page[2], 2 do
  local need = need_of(page[2][i], page[2][i + 1])
  if need then
    local texts = {need.id, need.what, need.run or '-', need.is_urgent and 'urgent' or '-', need.why or ''}
    reply[#reply + 1] = table.concat(texts, '\0')
  end
end
return reply
