-- lanes: the ZSETs of schedules that wait for their time or for capacity; and the values in paused and quarantine.
--
-- USES   due_high_key due_normal_key due_low_key now_ms
-- GIVES  lanes lane_keys  their words; their keys
--        lane_of(word) key_of(word) queue_of(word)  the last is nil for a lane's word and for an invalid one
--        park(key, id, lane, due_ms, since_ms, note)  write the value of a schedule in the hash at *key*; since_ms: nil
--          for now; note: nil if a put pauses it
--
-- Each ZSET has a word: "<lane>", or, also in `meta.throttled`, "<lane>:<queue>" of schedules whose queue was full
-- (lib/capacity.lua) and "<lane>:-<zone>" of those whose zone the leader's machine lacks (set_aside.lua).
lanes = {'high', 'normal', 'low'}
lane_keys = {high = due_high_key, normal = due_normal_key, low = due_low_key}

function lane_of(word)
  return string.match(word, '^%a+')
end

function queue_of(word)
  local lane, queue = string.match(word, '^(%a+):(.+)$')
  return lane_keys[lane or ''] and queue
end

function key_of(word)
  return lane_keys[word] or lane_keys[lane_of(word)] .. string.match(word, ':.*$')
end

function park(key, id, lane, due_ms, since_ms, note)
  since_ms, note = since_ms or string.format('%.0f', now_ms), note or 'put with enabled=False'  -- as core/log/puts.py
  redis.call('HSET', key, id, lane .. ' ' .. due_ms .. ' ' .. since_ms .. ' ' .. note)
end
