-- lost: put runs back into their queues after their worker died, or record them as lost.
--
-- KEYS   lease @schedules @trouble rq_queues rq_limits
-- ARGV   schedule_prefix run_suffix    as in keys.py
--        @term
--        seen_entry seen_t            id and t of an entry of the history in which the runs were fired
--        ended_ms                     end of the runs that end, the same as in their records
--        ...   nine texts per run: its schedule's id, its own id, the status of its job as seen (started or queued),
--              its last_heartbeat or, if queued, enqueued_at, its lapsed members of rq:wip by spaces, again | end, the
--              next attempt or the status, why it goes on or the record of its end (JSON, core/runs/run.py), and for
--              an end the reason as rq:results keeps it (packed), else its attempts (JSON, core/runs/attempts.py)
-- RETURNS  OK, now ms, id and t of the last entry of these two kinds or - and 0, list of the runs that are in their
--          queues again, list of runs that ended, list of schedules that were paused  |  STALE  |  SERVER  |  LOST
-- LOGS   again: rows = run id, attempt, why
--        end: rows = run id, status, JSON
--        state: the schedules with another count of failures (lib/state.lua)
--        pause: as in pause.lua, of a schedule with pause_after failures in a row
--
-- LOST as in track.lua. A run is left alone if its job has changed since it was seen, if its worker is not dead
-- (lib/liveness.lua), if it is in its queue after all, or if a key of RQ's is of a wrong type. A run that goes on
-- keeps its place in its chain. Runs that waited for a run that ends are launched by unblock.lua.
-- include lib/fence.lua
-- include lib/same_history.lua
-- include lib/streaks.lua
-- include lib/slots.lua
-- include lib/status.lua
-- include lib/liveness.lua
-- include lib/rows.lua
-- include lib/failed.lua
-- include lib/wording.lua

-- Return whether a worker took the run: it is not in its queue. Without an execution it may be on its way to a worker.
local function is_taken(one)
  local most = 10000  -- runs of a queue that are searched
  if redis.call('LPOS', one.queue_key, one.run, 'MAXLEN', most) then
    return false
  elseif one.has_lapsed then
    return redis.call('LLEN', one.queue_key) <= most
  end
  return redis.call('EXISTS', one.executions_key) == 0 and not redis.call('LPOS', one.intermediate_key, one.run)
end

-- Return the facts of a lost run, or nothing for a run that must be left alone.
local function look(run, status, mark, members)
  local job = redis.pcall('HMGET', RQ_JOB .. run, 'status', 'last_heartbeat', 'enqueued_at', 'origin',
    'retries_left', 'enqueue_at_front_on_retry', 'failure_ttl', 'rate_limit_key', 'rate_limit_concurrency',
    'zs_failure_ttl')
  local queue = job[4]
  local present_mark = not job.err and time_of(job[status == 'queued' and 3 or 2]) or ''
  local rate_limit = limit_of(job[8], job[9])
  if job.err or job[1] ~= status or present_mark ~= mark or not queue_accepts(queue) or rate_limit == false then
    return nil
  end
  local one = {run = run, queue = queue, members = {}, has_lapsed = members ~= '',
    retries_left = tonumber(job[5] or ''), at_front = job[6] and job[6] ~= '' and tonumber(job[6]) ~= 0,
    failure_ttl = job[10] or job[7], rate_limit = rate_limit, job_key = RQ_JOB .. run,
    queue_key = RQ_QUEUE .. queue, intermediate_key = RQ_QUEUE .. queue .. ':intermediate',
    wip_key = RQ_WIP .. queue, failed_key = RQ_FAILED .. queue, executions_key = RQ_EXECUTIONS .. run,
    results_key = RQ_RESULTS .. run}
  if not (is_a(one.intermediate_key, 'list') and is_a(one.wip_key, 'zset') and is_a(one.failed_key, 'zset')
    and is_a(one.executions_key, 'zset') and is_a(one.results_key, 'stream')) then
    return nil
  end
  local newest = redis.call('XREVRANGE', one.results_key, '+', '-', 'COUNT', 1)[1]
  one.takes_no_result = newest and string.find(newest[1], '^18446744073709551615%-')  -- the last id of a stream
  for member in string.gmatch(members, '%S+') do
    one.members[#one.members + 1] = member
  end
  for _, execution in ipairs(executions_of(run)) do
    one.members[#one.members + 1] = execution
  end
  local is_nobodys = status == 'queued' and not is_alive(one.members) and is_taken(one)
  return (is_nobodys or is_dead(job_of(run))) and one or nil
end

local again, ended = {kind = 'again', runs = {}, rows = {}}, {kind = 'end', runs = {}, rows = {}}
local lost = {}  -- in a list, and by run
for i = ROWS, #ARGV, 9 do
  local id, run, status, mark, members, word, words, text, packed = unpack(ARGV, i, i + 8)
  local one = not lost[run] and look(run, status, mark, members)
  if one and (word == 'end' or (one.retries_left or 0) >= 1) then
    one.packed, one.goes_on = packed, word == 'again'
    if not one.goes_on then
      count(id, run, '!')
    end
    local kind = one.goes_on and again or ended
    kind.runs[#kind.runs + 1] = run
    add_row(kind.rows, run, words, text)
    lost[#lost + 1], lost[run] = one, one
  end
end
if #lost == 0 then
  return {'OK', now_ms, '-', '0', {}, {}, {}}
end

decide_pauses()
log_states()
local entry
for _, what in ipairs({again, ended}) do
  entry = append_rows(what.kind, what.rows) or entry
end
-- A run that ends is filed as RQ files failed jobs (Result.create_failure). The job and the log must have the same
-- time: by a later time the tracker knows that the job ended again, after somebody queued it again.
local RESULT_TYPE = '2'  -- RQ's type of such a result
for _, one in ipairs(lost) do
  -- RQ would take what the dead worker left behind for an abandoned job, and push the run a second time.
  end_executions(one)
  redis.call('LREM', one.intermediate_key, 1, one.run)
  if one.goes_on then
    queue_run(one.run, one.queue, one.at_front, one.rate_limit,
      'retries_left', string.format('%.0f', one.retries_left - 1), 'zs_attempts', one.packed)
  else
    redis.call('HSET', one.job_key, 'status', 'failed', 'ended_at', iso(tonumber(ended_ms)))
    if not one.takes_no_result then
      redis.call('XADD', one.results_key, 'MAXLEN', 10, '*', 'type', RESULT_TYPE, 'worker_name', '',
        'exc_string', one.packed)
    end
    keep_failed(one.run, one.queue, one.failure_ttl)
  end
end
push_all()
return {'OK', now_ms, entry, t, again.runs, ended.runs, pause_failing()}
