-- op: a call that has no id of its own to make it repeatable is known by an operation id.
--
-- USES   op_key keep_op_ms
-- GIVES  answer(reply); returns the first reply at once when the call is sent again
--
-- Only the reply of a call that changed something is kept: a refusal writes nothing, and is decided anew.
-- Replies are flat lists of words, ids and numbers without spaces, kept joined by spaces.
-- include lib/meta.lua
local seq_before = seq
if keep_op_ms > 0 then
  local told = redis.call('GET', op_key)
  if told and string.sub(told, 1, 3) ~= 'OK ' then
    return redis.error_reply('WRONGVALUE ' .. op_key .. ' holds no reply of a script: delete it')
  elseif told then
    local reply = {}
    for word in string.gmatch(told, '%S+') do
      reply[#reply + 1] = word
    end
    return reply
  end
end

local function answer(reply)
  if keep_op_ms > 0 and seq ~= seq_before then
    local told = {}
    for i = 1, #reply do
      told[i] = type(reply[i]) == 'number' and string.format('%.0f', reply[i]) or reply[i]
    end
    redis.call('SET', op_key, table.concat(told, ' '), 'PX', keep_op_ms)
  end
  return reply
end
