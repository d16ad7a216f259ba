-- seat: take or keep a seat for a daemon inside a worker.
--
-- KEYS   meta seats
-- ARGV   daemon
--        most            number of seats
--        lease_ms        until the seat lapses, unless it is kept before
-- RETURNS  OK, now ms  |  FULL, now ms
-- LOGS   nothing: a seat is no state of a schedule
--
-- A seat that lapsed is free: its daemon gets it again only while there is a free one. An end that is further away than
-- a lease was written before the clock was set back. It works in any format: it writes no schedule.
-- include lib/time.lua

redis.call('ZREMRANGEBYSCORE', seats_key, '-inf', now_ms)
local until_ms = now_ms + tonumber(lease_ms)
for _, other in ipairs(redis.call('ZRANGEBYSCORE', seats_key, '(' .. until_ms, '+inf')) do
  redis.call('ZADD', seats_key, until_ms, other)
end
if not redis.call('ZSCORE', seats_key, daemon) and redis.call('ZCARD', seats_key) >= tonumber(most) then
  return {'FULL', now_ms}
end
redis.call('ZADD', seats_key, until_ms, daemon)
redis.call('PEXPIRE', seats_key, lease_ms)
return {'OK', now_ms}
