-- enqueue: put one run into its RQ queue at once, through the same log as everything else.
--
-- KEYS   @schedules @trouble rq_queues rq_limits op deadlines
-- ARGV   @prefixes unique_prefix
--        by              who asks, for the log; or ''
--        id
--        if_exists       replace | keep | error
--        keep_op_ms      > 0: op holds the reply that long, and a call sent again gets it
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
keep_op_ms = tonumber(keep_op_ms)
-- include lib/op.lua
-- include lib/place.lua
-- include lib/trouble.lua
-- include lib/launch.lua
-- include lib/unique.lua
-- include lib/version.lua

local job, given = {unpack(ARGV, ROWS)}, {}
for i = 1, #job, 2 do
  given[job[i]] = job[i + 1]
end
local queue, expires_ms = given.origin, whole_of(given.zs_expires)
local rate_limit = limit_of(given.rate_limit_key, given.rate_limit_concurrency)
local at = find({id})[1]
local waits = seen_version ~= ''
if waits and (not at or at.recurring or at.due_ms ~= run_ms or version_of(id, at) ~= seen_version) then
  return answer({'OK', 'CHANGED:' .. version_of(id, at), now_ms, version(), '-'})
end
local run = waits and id .. '-' .. run_ms .. run_suffix or free_run(id, tonumber(run_ms) or now_ms, 0)
local first_run = not at and if_exists ~= 'replace' and guarded_by(id)
if first_run or at and if_exists ~= 'replace' then
  return answer({'OK', if_exists == 'keep' and 'kept' or 'EXISTS', now_ms, version(), first_run or '-'})
end
if rate_limit == false or not queue_accepts(queue) then
  return answer({'OK', 'WRONGTYPE', now_ms, version(), '-'})
elseif run_ms ~= '' and run ~= id .. '-' .. run_ms .. run_suffix then
  return answer({'OK', 'AGAIN', now_ms, version(), '-'})
end

local fields = {'rows', 1, run, at_front .. ' ' .. #job / 2 .. (waits and ' now' or ' -')}
for i = 1, #job do
  fields[#fields + 1] = job[i]
end
local put_version = append('enqueue', fields)
if at then
  remove(id, at)
  if at.recurring then
    forget_trouble(id)
  end
end
launch(run, queue, {fields = job, at_front = at_front == '1', rate_limit = rate_limit,
  deadline_ms = expires_ms and now_ms + expires_ms})
local unique_ms = whole_of(given.zs_unique)
if unique_ms then
  guard(id, run, now_ms + unique_ms)
end
push_all()
return answer({'OK', at and 'updated' or 'created', now_ms, put_version, run})
