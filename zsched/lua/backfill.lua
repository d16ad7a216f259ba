-- backfill: push runs of a recurring schedule for occurrences that passed without a run.
--
-- KEYS   @schedules schedule template rq_queues rq_limits op deadlines
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        id
--        planned_version  of the schedule when its rule was read for the occurrences
--        keep_op_ms       op holds the reply that long, and a call sent again gets it
--        ...              two texts per occurrence: nominal ms; once, or again if it ran and shall run again. No
--                         occurrence comes twice
-- RETURNS  OK, word, now ms, then after `backfilled` per occurrence: run id, or - if its run exists (once) or is
--          open (again)
--        words: backfilled NOTFOUND CHANGED (it has another version) QUARANTINED WRONGTYPE
-- LOGS   backfill: id, runs = run ids by spaces
--
-- A run has the id that its occurrence would have had. A run of `again` has an extra id, numbered by its entry in the
-- log, as in retry. Runs go to the back of their queue, whatever the schedule's at_front, overlap and catch_up are.
-- Their deadline counts from now. The schedule keeps its next occurrence and its last run.
keep_op_ms = tonumber(keep_op_ms)
-- include lib/op.lua
-- include lib/place.lua
-- include lib/launch.lua
-- include lib/status.lua
-- include lib/pushed.lua

local at = find({id})[1]
if not at then
  return answer({'OK', 'NOTFOUND', now_ms})
end
local held_version = redis.pcall('HGET', schedule_key, 'version')
if type(held_version) == 'table' then
  return answer({'OK', 'WRONGTYPE', now_ms})
end
if not at.recurring or held_version ~= planned_version then
  return answer({'OK', 'CHANGED', now_ms})
end
local template = redis.pcall('HMGET', template_key, 'data', 'origin', 'zs_expires', 'rate_limit_key',
  'rate_limit_concurrency')
if at.place == 'quarantine' or template.err or not template[1] then
  return answer({'OK', 'QUARANTINED', now_ms})
end
local queue, expires_ms = template[2], whole_of(template[3])
local rate_limit = limit_of(template[4], template[5])
if rate_limit == false or not queue_accepts(queue) then
  return answer({'OK', 'WRONGTYPE', now_ms})
end

-- Return the run id of an occurrence, or nothing if it gets no run.
local function new_run(nominal_ms, how)
  local plain = id .. '-' .. nominal_ms .. run_suffix
  if how == 'once' then
    return make_way(plain) and plain or nil
  elseif not is_under_way(redis.pcall('HGET', RQ_JOB .. plain, 'status')) then
    return free_run(id, tonumber(nominal_ms), seq + 1)
  end
end

local reply, runs = {'OK', 'backfilled', now_ms}, {}
for i = ROWS, #ARGV, 2 do
  local run = new_run(ARGV[i], ARGV[i + 1])
  reply[#reply + 1] = run or '-'
  runs[#runs + 1] = run
end
if #runs == 0 then
  return answer(reply)
end

append('backfill', {'id', id, 'runs', table.concat(runs, ' ')})
local job = {template = template_key, rate_limit = rate_limit, deadline_ms = expires_ms and now_ms + expires_ms}
for _, run in ipairs(runs) do
  launch(run, queue, job)
end
push_all()
return answer(reply)
