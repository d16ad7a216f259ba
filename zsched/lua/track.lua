-- track: record finished runs, and pause a schedule whose runs fail one after the other.
--
-- KEYS   lease @schedules @trouble wake deadlines
-- ARGV   @prefixes
--        @term
--        seen_entry seen_t            id and t of an entry of the history in which the runs were fired
--        ...   six texts per run: its schedule's id, its own id, "<status> <ended_at>" of its job when look read it (or
--              gone), how it counts for failures in a row (+ a success, ! a failure, - not at all), its status, and the
--              record of its end (JSON, core/runs.py)
-- RETURNS  OK, now ms, the entry's id and t or - and 0, number of runs that ended, list of schedules that were paused
--          |  STALE  |  SERVER  |  LOST
-- LOGS   end: rows = run id, status, JSON
--        pause: as in pause.lua, of a schedule with pause_after failures in a row
--
-- LOST: the log does not contain that entry, so this Redis may never have had the runs. Then missing jobs mean nothing.
-- A job that has changed since it was seen is left for another look. The end of a job that zsched cancelled is in the
-- log already (lib/waiting.lua).
-- include lib/fence.lua
-- include lib/same_history.lua
-- include lib/streaks.lua

local rows, runs = {}, {}
for i = ROWS, #ARGV, 6 do
  local id, run, seen_as, verdict, status, facts = unpack(ARGV, i, i + 5)
  local job = redis.pcall('HMGET', RQ_JOB .. run, 'status', 'ended_at')
  if job.err and not string.find(job.err, 'WRONGTYPE', 1, true) then
    return job
  end
  local is_logged = job[1] == 'canceled' and job[2] and job[2] == redis.call('HGET', RQ_JOB .. run, 'zs_told')
  if (job[1] and word_of(job[1]) .. ' ' .. (time_of(job[2]) or '') or 'gone') == seen_as and not is_logged then
    add_row(rows, run, status, facts)
    runs[#runs + 1] = run
    count(id, run, verdict)
  end
end
if #runs == 0 then
  return {'OK', now_ms, '-', '0', 0, {}}
end
decide_pauses()
local entry = append_rows('end', rows)
if is_a(deadlines_key, 'zset') then
  redis.call('ZREM', deadlines_key, unpack(runs))
end
return {'OK', now_ms, entry, t, #runs, pause_failing()}
