-- hold: fire nothing while a loss is being examined, or after a jump of the clock.
--
-- USES   clock_from_ms clock_until_ms
-- RETURNS  JUMPED, now ms  |  HELD, now ms, hold ms
--
-- TIME outside of the range of the caller's monotonic clock has jumped: firing by it could be early. A hold beyond the
-- longest lease was written before the clock jumped back: it is ignored.
-- include lib/fence.lua
if now_ms < tonumber(clock_from_ms) or now_ms > tonumber(clock_until_ms) then
  return {'JUMPED', now_ms}
end
if now_ms < hold_ms and hold_ms <= now_ms + LONGEST_HOLD then
  return {'HELD', now_ms, hold_ms}
end
