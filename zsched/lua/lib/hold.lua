-- hold: fire nothing while a loss is being examined, or after a jump of the clock.
--
-- USES   clock_from_ms clock_until_ms
-- RETURNS  JUMPED, now ms  |  HELD, now ms, hold ms
--
-- A hold that is further away than the longest lease was written before the clock jumped back: it is ignored.
-- The caller's monotonic clock gives the range in which TIME must be. Outside of it the server's clock has jumped, and
-- firing by it could be early.
-- include lib/fence.lua
if now_ms < clock_from_ms or now_ms > clock_until_ms then
  return {'JUMPED', now_ms}
end
if now_ms < hold_ms and hold_ms <= now_ms + LONGEST_HOLD then
  return {'HELD', now_ms, hold_ms}
end
