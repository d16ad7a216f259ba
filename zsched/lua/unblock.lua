-- unblock: launch waiting runs for which no run before them is open, withdraw replaced runs, drop finished runs.
--
-- KEYS   lease meta log chains rq_queues rq_limits deadlines
-- ARGV   waiting_prefix
--        @term
--        clock_from_ms clock_until_ms   as in fire
--        cursor          0, then the cursor of the last reply
--        count           chains to look at, about
-- RETURNS  OK, now ms, cursor (0: that was all), whether runs still wait in these chains (1 or 0), then per launched
--          run: its id and the reason
--          |  STALE  |  SERVER  |  HELD, now ms, hold ms  |  JUMPED, now ms
-- LOGS   unblock: rows = run id, why
--        end: rows = run id, cancelled, JSON: runs that a later run replaces, before they began; and runs that a lost
--        Redis may have launched, if their schedules have on_uncertain="skip"
-- include lib/hold.lua
-- include lib/launch.lua
-- include lib/chain.lua
-- include lib/liveness.lua
-- include lib/waiting.lua
-- include lib/tell.lua
-- include lib/rows.lua

local MOST_WAITING = 2000  -- searched runs of a queue: this may happen every second
local ENDS = {finished = 'finished', failed = 'failed', canceled = 'was cancelled', stopped = 'was stopped'}
local IN_DOUBT = 'a lost Redis may have pushed it already'
local REPLACED = 'its next occurrence came first (overlap=cancel_previous)'
local ends = {}  -- rows

local function plan_cancels(jobs, why)
  for _, one in ipairs(jobs) do
    if one.status ~= 'started' and is_in_place(one, MOST_WAITING) then
      one.is_withdrawn = true
      add_row(ends, one.run, 'cancelled', string.format('{"ended":%.0f,"error":"%s"}', now_ms, why))
    end
  end
end

-- Cancel runs that have not begun, and ask the workers of started runs to stop them. Return those that are still open.
-- No job is kept, unlike in cancel_run.lua: RQ never cleans rq:canceled.
local function cancel(jobs)
  local left = {}
  for _, one in ipairs(jobs) do
    if one.is_withdrawn then
      take_out(one)
      redis.call('PEXPIRE', RQ_JOB .. one.run, REMAINS_MS)
      redis.call('ZREM', deadlines_key, one.run)
    else
      if one.status == 'started' then
        tell(one)
      end
      left[#left + 1] = one
    end
  end
  return left
end

-- By policy: need(need, runs) reads, and completes *need*, which has the schedule's id, the mode, and `open`, the open
-- ones of the pushed *runs*. It may set run, to be launched, and why; and goes_on: look again soon. mend(need) makes
-- the changes. It returns the pushed runs that stay, and whether the chain stays without any.
local POLICIES = {queue = {}, cancel_previous = {}}

local function why_over(run)
  local job = run and job_of(run) or {}
  if is_open(job.status) then
    return 'the worker ' .. name_of(job.worker) .. ' of ' .. name_of(run) .. ' died'
  elseif job.status then
    return name_of(run) .. ' ' .. (ENDS[job.status] or 'is over')
  end
  return run and name_of(run) .. ' is gone: it expired, or somebody deleted it' or 'no run is before it'
end

-- queue: the run that has waited longest is next, when no run before it is in the way. It is in doubt if a lost Redis
-- may have launched it.
local function choose_next(need)
  local waiting = waiting_runs(need.id)
  for n, run in ipairs(waiting) do
    local job = waits_still(run) and redis.call('HMGET', RQ_JOB .. run, 'origin', 'zs', 'created_at', 'rate_limit_key',
      'rate_limit_concurrency')
    local rate_limit = job and limit_of(job[4], job[5])
    if job and (rate_limit == false or not queue_accepts(job[1])) then
      need.goes_on = true
      return
    end
    need.gone = n
    if job then
      need.run, need.queue, need.rate_limit, need.goes_on = run, job[1], rate_limit, n < #waiting
      need.at_front = string.find(job[2] or '', 'f', 1, true)
      need.is_uncertain = doubt_ms >= 0 and (job[3] or '') <= iso(doubt_ms)
      if need.is_uncertain and string.find(job[2] or '', 's', 1, true) then
        need.run, need.lapsed = nil, {{id = need.id, run = run, status = 'deferred'}}
        plan_cancels(need.lapsed, IN_DOUBT)
      end
      return
    end
  end
end

function POLICIES.queue.need(need, runs)
  for _, job in ipairs(need.open) do
    if is_in_the_way(job) then
      need.goes_on = redis.call('EXISTS', waiting_prefix .. need.id) == 1
      return
    end
  end
  if is_a(waiting_prefix .. need.id, 'list') then
    choose_next(need)
    need.why = need.run and why_over(runs[#runs])
  end
end

function POLICIES.queue.mend(need)
  if need.gone then
    redis.call('LTRIM', waiting_prefix .. need.id, need.gone, -1)
  end
  if need.run then
    launch(need.run, need.queue, need)
    need.open[#need.open + 1] = {run = need.run}
  end
  cancel(need.lapsed or {})
  return need.open, need.goes_on
end

-- cancel_previous: runs that wait are withdrawn, except the last; the workers of started runs are asked to stop them,
-- and asked again after a while (lib/tell.lua), because a worker may have taken a run just now. The last run stays in
-- the chain until all are over: a run that was asked to stop may be tried again.
function POLICIES.cancel_previous.need(need, runs)
  need.last = {run = runs[#runs]}
  if #need.open > 0 and need.open[#need.open].run == need.last.run then
    need.open[#need.open], need.is_last_open = nil, true
  end
  for _, job in ipairs(open_jobs(need.id, waiting_runs(need.id))) do  -- by a former policy
    need.open[#need.open + 1] = job
  end
  plan_cancels(need.open, REPLACED)
  need.goes_on = #need.open > 0
end

function POLICIES.cancel_previous.mend(need)
  local left = cancel(need.open)
  local key = waiting_prefix .. need.id  -- runs of a former policy that expired while they waited
  if redis.call('TYPE', key).ok == 'list' then
    redis.call('DEL', key)
  end
  left[#left + 1] = (#left > 0 or need.is_last_open) and need.last or nil
  return left
end

local function need_of(id, text)
  local mode, runs = string.match(text, '^%S+'), pushed_runs(id, nil, text)
  local need = {id = id, mode = mode, text = text, policy = POLICIES[mode or '']}
  if need.policy then
    need.open = open_jobs(id, runs)
    need.policy.need(need, runs)
  end
  return need
end

local page = redis.call('HSCAN', chains_key, cursor, 'COUNT', count)
local reply, needs, rows = {'OK', now_ms, page[1], 0}, {}, {}
for i = 1, #page[2], 2 do
  local need = need_of(page[2][i], page[2][i + 1])
  needs[#needs + 1] = need
  reply[4] = need.goes_on and 1 or reply[4]
  if need.run then
    add_row(rows, need.run, need.why)
    reply[#reply + 1], reply[#reply + 2] = need.run, need.why
  end
end
append_rows('unblock', rows)
append_rows('end', ends)
for _, need in ipairs(needs) do
  local left, stays = {}, false
  if need.policy then
    left, stays = need.policy.mend(need)
  end
  if #left == 0 and not stays then
    redis.call('HDEL', chains_key, need.id)
  else
    follow(need.id, need.mode, left, nil, need.text)
  end
end
push_all()
return reply
