-- cancel_run: keep runs from running, or ask their workers to stop them.
--
-- KEYS   @schedules op
-- ARGV   run_suffix waiting_prefix   as in keys.py
--        by              who asks, for the log; or ''
--        most_waiting    runs of queues to search in one call: more would block Redis
--        ...             four texts per run: id of its schedule; run, each once; "<status> <enqueued_at>" of its job
--                        when look read it; and the record of its end (JSON, core/runs/run.py)
-- RETURNS  OK, now ms, then per run: word, detail
--        words: cancelled, stopping (its worker was asked to stop it), over, UNKNOWN (RQ has no such job), WAITS (its
--        schedule has not fired), AGAIN (not as seen: look again), TAKEN (no longer where it waited, not started yet:
--        look again), DEAF (its worker, the detail, does not listen), BROKEN (another writer changed it), WRONGTYPE,
--        LATER (the search took too long for this call: call again; the first run of a call never gets it)
-- LOGS   end: rows = run, cancelled, facts
--        stop: runs, before their workers are asked to stop them; by spaces
--
-- This is one step, so any later caller finds a run either unchanged or cancelled. Three callers may come at the same
-- time:
-- * A worker takes a run out of its list first, and writes `started` some ms later. In between nothing can keep the run
--   from running, and the worker would overwrite what is written here. So a run that is not where it should wait is
--   TAKEN.
-- * The tracker records only jobs that are still as it saw them (track.lua), so it does not record another end. Before
--   its archive has the entry of this cancellation, it may see the run cancelled. A field of the job (lib/waiting.lua)
--   says that this end is in the log. So the job stays for a while, also if the run was too far back for a search.
-- * Another caller finds `canceled`, which is over.
-- A run behind the first most_waiting stays in its list, and its job loses its data (lib/waiting.lua). A caller gives
-- the runs of a long queue from its head on: then each is the first one, and none is too far back.
-- Not guaranteed: a worker may take a run that is too far back at the same moment. RQ's own scheduler may have fetched
-- a run and not pushed it yet.
-- include lib/op.lua
-- include lib/find.lua
-- include lib/status.lua
-- include lib/waiting.lua
-- include lib/tell.lua
-- include lib/wording.lua
-- include lib/rows.lua

local OVER = {finished = true, failed = true, stopped = true, canceled = true}
most_waiting = tonumber(most_waiting)
local left = most_waiting  -- runs that this call may still search

-- Return a word and its detail, for a run to take out or to stop also the run itself.
local function decide(id, run, seen)
  local one = job_of(run)
  local status = word_of(one.status)
  one.id = id
  if not status then
    return redis.call('EXISTS', RQ_JOB .. run) == 1 and 'BROKEN' or 'UNKNOWN', '-'
  elseif OVER[status] then
    return 'over', status
  elseif status == 'started' and one.worker == '' then
    return 'BROKEN', status
  elseif status == 'started' then
    return 'stopping', name_of(one.worker), one
  end
  local at = status == 'scheduled' and find({id})[1]
  if at and not at.recurring and id .. '-' .. at.due_ms .. run_suffix == run then
    return 'WAITS', '-'
  end
  local place_key, kind = place_of(one)
  if not place_key or one.queue == '' then
    return 'BROKEN', status
  elseif not is_a(place_key, kind) or not is_a(RQ_CANCELED .. one.queue, 'zset') then
    return 'WRONGTYPE', '-'
  elseif status .. ' ' .. (time_of(redis.call('HGET', RQ_JOB .. run, 'enqueued_at')) or '') ~= seen then
    return 'AGAIN', status
  end
  local is_there = (left > 0 or status ~= 'queued') and is_in_place(one, left)
  if status == 'queued' and (left <= 0 or one.is_far and left < most_waiting) then
    left = 0
    return 'LATER', '-'
  end
  left = left - (one.looked_at or 0)
  if not is_there then
    return 'TAKEN', status
  end
  return 'cancelled', '-', one
end

local reply, rows, leaving, telling, stops = {'OK', now_ms}, {}, {}, {}, {}
for i = ROWS, #ARGV, 4 do
  local id, run, seen, facts = unpack(ARGV, i, i + 3)
  local word, detail, one = decide(id, run, seen)
  if word == 'cancelled' then
    leaving[#leaving + 1] = one
    add_row(rows, run, 'cancelled', facts)
  elseif one then
    telling[#reply + 1] = one
    stops[#stops + 1] = not is_told(one) and run or nil
  end
  reply[#reply + 1], reply[#reply + 2] = word, detail
end
append_rows('end', rows)
if #stops > 0 then
  append('stop', {'runs', table.concat(stops, ' ')})
end
for place, one in pairs(telling) do
  reply[place] = tell(one) and 'stopping' or 'DEAF'
end
for _, one in ipairs(leaving) do
  take_out(one)
  if one.is_far then
    redis.call('PEXPIRE', RQ_JOB .. one.run, REMAINS_MS)
  else
    redis.call('ZADD', RQ_CANCELED .. one.queue, math.floor(now_ms / 1000), one.run)  -- as RQ's own Job.cancel does
  end
end
return answer(reply)
