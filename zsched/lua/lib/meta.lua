-- meta: the one read of meta, the one TIME, and the one way to append to the log.
--
-- USES   meta_key log_key
-- GIVES  epoch seq server hold_ms doubt_ms now_ms t aside_words, append(kind, fields), version()
--        FORMAT, or the reply FORMAT, what the namespace has, what this knows: a newer zsched leads here
--
-- TIME is asked once because it is frozen inside a script only since Redis 7.2. `t` is its 16
-- digits of microseconds as a string: a Lua number of that size does not survive tostring.
-- meta.offset_ms moves the clock for tests, meta.frozen_ms stops it (zsched/testing): then `t` has no
-- microseconds, so it never goes back. An ordinary daemon does not lead where one of them is set.
local FORMAT = 1  -- of keys, values and entries; raised when an older zsched would misread what a newer one writes
local time = redis.call('TIME')
local meta = redis.call('HMGET', meta_key, 'epoch', 'seq', 'server', 'hold', 'doubt', 'offset_ms',
  'frozen_ms', 'aside', 'format')
if tonumber(meta[9] or '0') > FORMAT then
  return {'FORMAT', meta[9], FORMAT}
end
local epoch, seq = tonumber(meta[1] or '0'), tonumber(meta[2] or '0')
local server, hold_ms, doubt_ms = meta[3], tonumber(meta[4] or '0'), tonumber(meta[5] or '-1')
local now_ms = tonumber(meta[7] or '')
  or tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + tonumber(meta[6] or '0')
local aside_words = meta[8] or ''  -- see lib/lanes.lua
local t = string.format('%.0f%03d', now_ms, meta[7] and 0 or tonumber(time[2]) % 1000)

-- The id that the next entry will have. Without meta: epoch 0, seq 1.
local function version()
  return string.format('%.0f-%.0f', epoch, seq + 1)
end

-- Append one entry; call it before any other write of the script. XADD is the write that Redis
-- refuses when it is out of memory or read-only, so then nothing at all is applied; seq follows
-- it, since an increment before it would leave a hole when it fails.
local function append(kind, fields)
  local id = version()
  redis.call('XADD', log_key, id, 'kind', kind, 't', t, unpack(fields))
  seq = seq + 1
  redis.call('HSET', meta_key, 'seq', string.format('%.0f', seq))
  return id
end
