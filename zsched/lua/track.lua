-- track: record finished runs, and pause a schedule whose runs fail one after the other.
--
-- KEYS   lease @schedules @trouble deadlines
-- ARGV   schedule_prefix run_suffix    as in keys.py
--        @term
--        seen_entry seen_t            id and t of an entry of the history in which the runs were fired
--        ...   six texts per run: its schedule's id, its own id, "<status> <ended_at>" of its job when look read it (or
--              gone), how it counts for failures in a row (+ a success, ! a failure, - not at all), its status, and the
--              record of its end (JSON, core/runs/run.py)
-- RETURNS  OK, now ms, the entry's id and t or - and 0, an empty list, list of runs that ended, list of schedules that
--          were paused: as lost.lua  |  STALE  |  SERVER  |  LOST
-- LOGS   end: rows = run id, status, JSON
--        state: the schedules with another count of failures (lib/state.lua)
--        pause: as in pause.lua, of a schedule with pause_after failures in a row
--
-- LOST: the log does not contain that entry, so this Redis may never have had the runs. Then missing jobs mean nothing.
-- A job that has changed since it was seen is left for another look. The end of a job that zsched cancelled is in the
-- log already (lib/waiting.lua).
-- RQ keeps an ended job for a minute at least, so that its end is seen. Once it is recorded, the job lives no longer
-- than its schedule wishes: zs_result_ttl and zs_failure_ttl, which storage/rqjob.py writes.
-- include lib/fence.lua
-- include lib/same_history.lua
-- include lib/hash.lua
-- include lib/streaks.lua
-- include lib/rq.lua
-- include lib/wording.lua

local KEPT_MS = 60000
local REGISTRIES = {finished = RQ_FINISHED, failed = RQ_FAILED, stopped = RQ_FAILED}
local rows, runs, shorter = {}, {}, {}
for i = ROWS, #ARGV, 6 do
  local id, run, seen_as, verdict, status, facts = unpack(ARGV, i, i + 5)
  local job = read_hash(RQ_JOB .. run, 'status', 'ended_at', 'origin', 'zs_result_ttl', 'zs_failure_ttl')
  local is_logged = job[1] == 'canceled' and job[2] and job[2] == redis.call('HGET', RQ_JOB .. run, 'zs_told')
  if (job[1] and word_of(job[1]) .. ' ' .. (time_of(job[2]) or '') or 'gone') == seen_as and not is_logged then
    add_row(rows, run, status, facts)
    runs[#runs + 1] = run
    count(id, run, verdict)
    local less_ms = KEPT_MS - 1000 * (whole_of(job[job[1] == 'finished' and 4 or 5]) or KEPT_MS)
    local registry_key = REGISTRIES[job[1]] and REGISTRIES[job[1]] .. (job[3] or '')
    if less_ms > 0 and registry_key and is_a(registry_key, 'zset') then
      shorter[#shorter + 1] = {run = run, less_ms = less_ms, registry_key = registry_key}
    end
  end
end
if #runs == 0 then
  return {'OK', now_ms, '-', '0', {}, {}, {}}
end
decide_pauses()
log_states()
local entry = append_rows('end', rows)
redis.call('ZREM', deadlines_key, unpack(runs))
for _, one in ipairs(shorter) do
  local run, ttl_ms = one.run, redis.call('PTTL', RQ_JOB .. one.run)
  local left_ms = (ttl_ms < 0 and KEPT_MS or ttl_ms) - one.less_ms
  if left_ms <= 0 then
    redis.call('ZREM', one.registry_key, run)
  end
  for _, key in ipairs({RQ_JOB .. run, RQ_RESULTS .. run, dependents_key(run), dependencies_key(run)}) do
    redis.call('PEXPIRE', key, string.format('%.0f', left_ms))
  end
end
return {'OK', now_ms, entry, t, {}, runs, pause_failing()}
