-- enqueue: put one run into its RQ queue at once, through the same log as everything else.
--
-- KEYS   @schedules @trouble rq_queues rq_limits op deadlines
-- ARGV   @prefixes unique_prefix
--        by              who asks, for the log; or ''
--        id
--        if_exists       replace | keep | error
--        at_front        1: pushed at the front
--        run_ms          the time in the run's id, which the caller has signed; '' for TIME
--        seen_version    of a waiting one-shot that is due at run_ms: it runs now, by its id; '' for a run of its own
--        ...             field/value texts of the job's hash; zs_unique: for so long (ms) the id keeps its run
-- RETURNS  OK, word, now ms, version, run id or -
--        words: created updated kept EXISTS WRONGTYPE AGAIN CHANGED:<version>; kept and EXISTS have the run, if it is
--        one, and - for a schedule. AGAIN: another run has the id of run_ms. CHANGED: there is no such one-shot
-- LOGS   enqueue: rows = run, "<front> <fields n> -" or, with seen_version, "<front> <fields n> now", the pairs
--
-- A waiting schedule with this id is replaced: it runs now, and not again at its time. With keep or error it stays; so
-- does a run that was enqueued by such a call, for the time that the call gave, whatever became of the run.
-- include lib/now.lua
-- include lib/texts.lua
-- include lib/remove.lua
-- include lib/unique.lua
-- include lib/version.lua

local fields = {unpack(ARGV, ROWS)}
local job, at, waits = by_name(fields), find({id})[1], seen_version ~= ''
if waits and (not at or at.recurring or at.due_ms ~= run_ms or version_of(id, at) ~= seen_version) then
  return answer({'OK', 'CHANGED:' .. version_of(id, at), now_ms, version(), '-'})
end
local run = waits and id .. '-' .. run_ms .. run_suffix or free_run(id, tonumber(run_ms) or now_ms, 0)
local first_run = not at and if_exists ~= 'replace' and guarded_by(id)
if first_run or at and if_exists ~= 'replace' then
  return answer({'OK', if_exists == 'keep' and 'kept' or 'EXISTS', now_ms, version(), first_run or '-'})
end
local one = order(run, job, at_front == '1')
if not one then
  return answer({'OK', 'WRONGTYPE', now_ms, version(), '-'})
elseif run_ms ~= '' and run ~= id .. '-' .. run_ms .. run_suffix then
  return answer({'OK', 'AGAIN', now_ms, version(), '-'})
end

one.fields, one.of = fields, waits and 'now' or '-'
local put_version = append('enqueue', rows_of({one}))
if at then
  remove(id, at)
end
push_now({one})
local unique_ms = whole_of(job.zs_unique)
if unique_ms then
  guard(id, run, now_ms + unique_ms)
end
return answer({'OK', at and 'updated' or 'created', now_ms, put_version, run})
