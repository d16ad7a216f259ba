-- op: keep the reply of a call under an operation id, so that the call can be sent again.
--
-- USES   op_key
-- GIVES  answer(reply)
-- RETURNS  the first reply, when the call is sent again
--
-- Only the reply of a call that changed something is kept, and none under the id `-`. A refusal writes nothing, and is
-- decided again.
-- Replies are flat lists of words, ids and numbers without spaces, kept joined by spaces.
-- include lib/meta.lua
local KEPT_MS = 600000  -- time for which a call that is sent again is recognised
local is_kept = string.sub(op_key, -5) ~= ':op:-'
local seq_before = seq
local kept = is_kept and redis.call('GET', op_key)
if kept and string.sub(kept, 1, 3) ~= 'OK ' then
  return redis.error_reply('WRONGVALUE ' .. op_key .. ' holds no reply of a script: delete it')
elseif kept then
  local reply = {}
  for word in string.gmatch(kept, '%S+') do
    reply[#reply + 1] = word
  end
  return reply
end

function answer(reply)
  if is_kept and seq ~= seq_before then
    local words = {}
    for i = 1, #reply do
      words[i] = type(reply[i]) == 'number' and string.format('%.0f', reply[i]) or reply[i]
    end
    redis.call('SET', op_key, table.concat(words, ' '), 'PX', KEPT_MS)
  end
  return reply
end
