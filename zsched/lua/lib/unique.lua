-- unique: guards, which keep an id from being run at once a second time.
--
-- USES   unique_prefix now_ms
-- GIVES  guarded_by(id)  the run of the guard that counts, or nil
--        guard(id, run, until_ms)
--
-- A guard is the text '<until ms> <run>'. The time in it counts. The key's time to live only removes it: it counts by
-- the server's clock and not by a test's. A run that was cancelled does not count, as long as RQ has its job. Another
-- program's text at the key is no guard.
-- include lib/untrusted.lua
local GUARD = '^(%d+) (%S+)$'

function guarded_by(id)
  local key = unique_prefix .. id
  local until_ms, run = string.match(is_a(key, 'string') and redis.call('GET', key) or '', GUARD)
  if (whole_of(until_ms) or 0) <= now_ms then
    return nil
  end
  return redis.pcall('HGET', RQ_JOB .. run, 'status') ~= 'canceled' and run or nil
end

function guard(id, run, until_ms)
  if until_ms > now_ms then
    redis.call('SET', unique_prefix .. id, string.format('%.0f', until_ms) .. ' ' .. run,
      'PX', string.format('%.0f', until_ms - now_ms))
  end
end
