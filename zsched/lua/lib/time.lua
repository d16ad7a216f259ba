-- time: read meta and TIME, each once per script.
--
-- USES   meta_key
-- GIVES  meta epoch seq server hold_ms doubt_ms format now_ms t LONGEST_HOLD
-- RETURNS  GARBLED, the values of meta: another writer wrote an invalid number (storage/meta.py names it)
--
-- `t` is the 16 digits of TIME's microseconds: a Lua number of that size does not survive tostring. meta.offset_ms and
-- frozen_ms are for tests. By an invalid number (nan, 1e300, 2.5) a script would fail between two writes.
-- include lib/whole.lua
LONGEST_HOLD = 60000  -- ms: the longest lease that a daemon may have; LONGEST_LEASE_MS of config/settings.py
local MOST = 253402300799999  -- the year 9999 in ms: LAST_MS of core/clock.py
local time = redis.call('TIME')
meta = redis.call('HMGET', meta_key, 'epoch', 'seq', 'server', 'hold', 'doubt', 'offset_ms',
  'frozen_ms', 'throttled', 'format', 'rq_prefix')
epoch, seq, server = tonumber(meta[1] or '0'), tonumber(meta[2] or '0'), meta[3]
hold_ms, doubt_ms, format = tonumber(meta[4] or '0'), tonumber(meta[5] or '-1'), tonumber(meta[9] or '0')
local offset_ms, frozen_ms = tonumber(meta[6] or '0'), tonumber(meta[7] or '0')
now_ms = meta[7] and frozen_ms
  or offset_ms and tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + offset_ms
if string.find((meta[1] or '') .. (meta[2] or '') .. (meta[4] or '') .. (meta[5] or '') .. (meta[6] or '')
    .. (meta[7] or '') .. (meta[9] or ''), '[^%d%-]')
  or not (epoch and seq and hold_ms and doubt_ms and offset_ms and frozen_ms and format)
  or math.max(epoch, seq, hold_ms, doubt_ms, offset_ms, now_ms, format) > MOST
  or math.min(epoch, seq, hold_ms, doubt_ms, offset_ms, format) < -MOST or now_ms < 0 then
  return {'GARBLED', meta}
end
t = string.format('%.0f%03d', now_ms, meta[7] and 0 or tonumber(time[2]) % 1000)
