-- unblock: launch waiting runs for which no run before them is open, withdraw replaced runs, drop finished runs.
--
-- KEYS   lease meta log chains rq_queues rq_limits deadlines
-- ARGV   @prefixes waiting_prefix
--        @term
--        clock_from_ms clock_until_ms   as in fire
--        cursor          0, then the cursor of the last reply
--        count           chains to look at, about
-- RETURNS  OK, now ms, cursor (0: that was all), whether runs still wait in these chains (1 or 0), then per launched
--          run: its id and the reason
--          |  STALE  |  SERVER  |  HELD, now ms, hold ms  |  JUMPED, now ms
-- LOGS   unblock: rows = run id, why
--        end: rows of runs that were withdrawn, as in advance; and of runs that a lost Redis may have launched, if their
--        schedules have on_uncertain="skip"
clock_from_ms, clock_until_ms = tonumber(clock_from_ms), tonumber(clock_until_ms)
-- include lib/hold.lua
-- include lib/overlap.lua

if not is_a(chains_key, 'hash') then
  return redis.error_reply('WRONGTYPE ' .. chains_key .. ' is no hash')
end

local page = redis.call('HSCAN', chains_key, cursor, 'COUNT', count)
local reply, needs, rows = {'OK', now_ms, page[1], 0}, {}, {}
for i = 1, #page[2], 2 do
  local need = need_of(page[2][i], page[2][i + 1])
  needs[#needs + 1] = need
  if need.waits then
    reply[4] = 1
  end
  if need.run then
    add_row(rows, need.run, need.why)
    reply[#reply + 1], reply[#reply + 2] = need.run, need.why
  end
end
append_rows('unblock', rows)
append_rows('end', ends)
for _, need in ipairs(needs) do
  mend(need)
end
push_all()
return reply
