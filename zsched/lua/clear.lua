-- clear: take schedules out of all places but one, where another writer put them into many.
--
-- KEYS   lease meta log due_high due_normal due_low paused quarantine recurring
-- ARGV   token expected_server        this term's
--        seen_entry seen_t   the log's end up to which the caller compared; - and 0 when it is empty
--        ...   per schedule: id, the place where it stays (high normal low paused quarantine, or - for none)
-- RETURNS  OK, now ms  |  AGAIN, now ms  |  STALE  |  SERVER
-- LOGS   nothing: by the log it never was there. The restore that follows says what was put right
local lease_key, meta_key, log_key, due_high_key, due_normal_key, due_low_key, paused_key, quarantine_key,
  recurring_key = unpack(KEYS)
local token, expected_server, seen_entry, seen_t = unpack(ARGV, 1, 4)
-- include lib/meta.lua
-- include lib/fence.lua
-- include lib/seen.lua
-- include lib/find.lua

for place, key in pairs({paused = paused_key, quarantine = quarantine_key}) do
  if not is_a(key, 'hash') then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is no hash')
  end
end
for _, lane in ipairs(lanes) do
  if not is_a(lane_keys[lane], 'zset') then
    return redis.error_reply('WRONGTYPE ' .. lane_keys[lane] .. ' is no sorted set')
  end
end
for i = 5, #ARGV, 2 do
  local id, stays = ARGV[i], ARGV[i + 1]
  for _, lane in ipairs(lanes) do
    if lane ~= stays then
      redis.call('ZREM', lane_keys[lane], id)
    end
  end
  for place, key in pairs({paused = paused_key, quarantine = quarantine_key}) do
    if place ~= stays then
      redis.call('HDEL', key, id)
    end
  end
end
return {'OK', now_ms}
