-- hold_on: let nothing fire for a while, or a while longer.
--
-- USES   meta_key
-- GIVES  hold_on(for_ms)
--
-- The hold lapses, so no process has to be alive to end it. A hold that is further away than the longest lease was
-- written before the clock jumped back: fire ignores it, and this file replaces it.
-- include lib/time.lua
function hold_on(for_ms)
  if for_ms > 0 and (hold_ms < now_ms + for_ms or hold_ms > now_ms + LONGEST_HOLD) then
    redis.call('HSET', meta_key, 'hold', string.format('%.0f', now_ms + for_ms))
  end
end
