-- time: the one read of meta, and the one TIME.
--
-- USES   meta_key
-- GIVES  meta, time, epoch seq server hold_ms doubt_ms now_ms t format, FORMAT
--        or the reply GARBLED, field, value: meta holds what is no number, so a foreign hand wrote it
--
-- TIME is asked once because it is frozen inside a script only since Redis 7.2. `t` is its 16
-- digits of microseconds as a string: a Lua number of that size does not survive tostring.
-- meta.offset_ms moves the clock for tests, meta.frozen_ms stops it (zsched/testing): then `t` has no
-- microseconds, so it never goes back. An ordinary daemon does not lead where one of them is set.
local FORMAT = 1  -- of keys, values and entries: core/log.py says when it is raised
local time = redis.call('TIME')
local meta = redis.call('HMGET', meta_key, 'epoch', 'seq', 'server', 'hold', 'doubt', 'offset_ms',
  'frozen_ms', 'aside', 'format')
local epoch, seq, server = tonumber(meta[1] or '0'), tonumber(meta[2] or '0'), meta[3]
local hold_ms, doubt_ms = tonumber(meta[4] or '0'), tonumber(meta[5] or '-1')
local offset_ms, frozen_ms, format = tonumber(meta[6] or '0'), tonumber(meta[7] or '0'), tonumber(meta[9] or '0')
if not (epoch and seq and hold_ms and doubt_ms and offset_ms and frozen_ms and format) then
  local fields = {'epoch', 'seq', 'server', 'hold', 'doubt', 'offset_ms', 'frozen_ms', 'aside', 'format'}
  local at = not epoch and 1 or not seq and 2 or not hold_ms and 4 or not doubt_ms and 5 or not offset_ms and 6
    or not frozen_ms and 7 or 9
  return {'GARBLED', fields[at], meta[at]}
end
local now_ms = meta[7] and frozen_ms
  or tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + offset_ms
local t = string.format('%.0f%03d', now_ms, meta[7] and 0 or tonumber(time[2]) % 1000)
