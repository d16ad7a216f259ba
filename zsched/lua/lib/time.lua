-- time: read meta and TIME, each once per script.
--
-- USES   meta_key
-- GIVES  meta epoch seq server hold_ms doubt_ms format now_ms t FORMAT OLDEST_FORMAT LONGEST_HOLD
-- RETURNS  GARBLED, field, value: meta has an invalid number, so another writer wrote it
--
-- TIME is called once because it is frozen inside a script only since Redis 7.2. `t` is its 16 digits of microseconds
-- as a string: a Lua number of that size does not survive tostring.
-- meta.offset_ms moves the clock for tests, meta.frozen_ms stops it (zsched/testing): then `t` has no microseconds.
--
-- A valid number is digits, with or without a minus, and no further from 0 than the last time, as in storage/meta.py:
-- by nan, 1e300, 2.5 or 0x7 a script would fail between two writes. One match checks all fields.
-- include lib/whole.lua
FORMAT = 7  -- of keys, values and entries: core/entry.py says when it is raised
OLDEST_FORMAT = 7  -- that is still read
LONGEST_HOLD = 60000  -- ms: the longest lease that a daemon may have; LONGEST_LEASE_MS of config/settings.py
local MOST = 253402300799999  -- the year 9999 in ms: LAST_MS of core/clock.py
local time = redis.call('TIME')
meta = redis.call('HMGET', meta_key, 'epoch', 'seq', 'server', 'hold', 'doubt', 'offset_ms',
  'frozen_ms', 'throttled', 'format', 'rq_prefix')
epoch, seq, server = tonumber(meta[1] or '0'), tonumber(meta[2] or '0'), meta[3]
hold_ms, doubt_ms = tonumber(meta[4] or '0'), tonumber(meta[5] or '-1')
format = tonumber(meta[9] or '0')
local offset_ms, frozen_ms = tonumber(meta[6] or '0'), tonumber(meta[7] or '0')
now_ms = meta[7] and frozen_ms
  or offset_ms and tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + offset_ms
if string.find((meta[1] or '') .. (meta[2] or '') .. (meta[4] or '') .. (meta[5] or '') .. (meta[6] or '')
    .. (meta[7] or '') .. (meta[9] or ''), '[^%d%-]')
  or not (epoch and seq and hold_ms and doubt_ms and offset_ms and frozen_ms and format)
  or math.max(epoch, seq, hold_ms, doubt_ms, offset_ms, now_ms, format) > MOST
  or math.min(epoch, seq, hold_ms, doubt_ms, offset_ms, format) < -MOST or now_ms < 0 then
  for at, field in ipairs({'epoch', 'seq', false, 'hold', 'doubt', 'offset_ms', 'frozen_ms', false, 'format'}) do
    local value = field and meta[at]
    if value and not (string.find(value, '^%-?%d+$') and math.abs(tonumber(value)) <= MOST) then
      return {'GARBLED', field, value}
    end
  end
  return {'GARBLED', meta[7] and 'frozen_ms' or 'offset_ms', meta[7] or meta[6] or ''}
end
t = string.format('%.0f%03d', now_ms, meta[7] and 0 or tonumber(time[2]) % 1000)
