-- overlap: the rules for runs that wait for each other, or replace each other. A policy is a row of POLICIES.
--
-- USES   now_ms doubt_ms chains_key waiting_prefix
-- GIVES  has_chain(mode)  its runs wait for others or replace them; else overlapping needs only *one*'s mode
--        overlapping(one, last, patience_ms)  for *one*, a due occurrence with its id, mode, limit, run and queue:
--          'overlap', run | 'deferred', run | 'free', why the run before does not count | 'broken', the problem. It
--          only reads
--        join(one)  then, after the run was launched, or made to wait because of one.waits
--        need_of(id, text)  for a pass over all chains: the changes that a chain needs. It only reads
--        mend(need)  then: makes them. need.run is launched for the reason need.why; need.waits: runs still wait
--
-- A row may have these functions:
-- at_due(one, last, patience_ms)  decides, for overlapping
-- join(one)           writes the chain with the new run
-- need(need, runs)    for the pushed runs, completes *need*, which has the schedule's id, the mode, and `open`, the
--                     open ones among them
-- mend(need)          makes the changes, and returns the pushed runs that stay
-- include lib/slots.lua
-- include lib/chain.lua
-- include lib/liveness.lua
-- include lib/withdraw.lua
local POLICIES = {allow = {}, skip = {}, queue = {}, cancel_previous = {}}

-- Return whether later runs must wait for this run, or are left out.
local function is_in_the_way(job)
  return is_open(job.status) and not is_dead_for_good(job)
end

function POLICIES.allow.at_due()
  return 'free'
end

-- skip: only the last run counts, unless it has waited in its queue for too long.
local waits_before

function POLICIES.skip.at_due(_, last, patience_ms)
  if not last then
    return 'free'
  end
  local job = redis.pcall('HMGET', RQ_JOB .. last, 'status', 'enqueued_at')
  local status, queued_at = job[1], job[2]
  if status == 'rate_limited' and (queued_at or '') == '' then  -- it waits for its first slot
    queued_at = redis.call('HGET', RQ_JOB .. last, 'created_at')
  end
  if not is_open(status) then
    return 'free'
  elseif status == 'started' then
    if not is_in_the_way(job_of(last)) then
      return 'free', 'previous_worker_silent'
    end
  elseif queued_at and queued_at ~= '' then
    waits_before = waits_before or iso(now_ms - patience_ms)
    if queued_at < waits_before then
      return 'free', 'previous_waits_too_long'
    end
  end
  return 'overlap', last
end

-- queue: a run waits in the list of its schedule while a run before it is open. It has the status `deferred`, and is in
-- none of RQ's registries, so only unblock.lua launches it. When a run that failed is queued again by hand while its
-- successor runs, both run.
local ENDS = {finished = 'is finished', failed = 'failed', canceled = 'was cancelled', stopped = 'was stopped'}
local IN_DOUBT = 'a lost Redis may have pushed it already'

function POLICIES.queue.at_due(one, last)
  local key = waiting_prefix .. one.id
  if not is_a(key, 'list') then
    return 'broken', 'wrong type at ' .. key .. ' (' .. redis.call('TYPE', key).ok .. ')'
  end
  one.before = open_jobs(one.id, pushed_runs(one.id, last))
  local room, newest = one.limit, nil
  for _, job in ipairs(one.before) do
    room, newest = room - (job.status == 'started' and 0 or 1), job.run  -- it waits, too: for a worker
  end
  if redis.call('LLEN', key) >= room then
    one.left = {}
    for _, run in ipairs(waiting_runs(one.id)) do
      one.left[#one.left + 1] = waits_still(run) and run or nil
    end
    newest = one.left[#one.left] or newest
    if #one.left >= room then
      return 'overlap', newest
    end
  else
    newest = redis.call('LINDEX', key, -1) or newest
  end
  one.waits = newest ~= nil
  return newest and 'deferred' or 'free', newest
end

function POLICIES.queue.join(one)
  local key, left = waiting_prefix .. one.id, one.left or {}
  follow(one.id, 'queue', one.before, not one.waits and one.run or nil)
  if one.left then
    redis.call('DEL', key)
  end
  left[#left + 1] = one.waits and one.run or nil
  for _, run in ipairs(left) do
    redis.call('RPUSH', key, run)
  end
end

local function why_over(run)
  local job = run and job_of(run) or {}
  if is_open(job.status) then
    return 'the worker ' .. name_of(job.worker) .. ' of ' .. name_of(run) .. ' died'
  elseif job.status then
    return name_of(run) .. ' ' .. (ENDS[job.status] or 'is over')
  end
  return run and name_of(run) .. ' is gone: it expired, or somebody deleted it' or 'no run is before it'
end

-- The run that has waited longest is next. It is in doubt if a lost Redis may have launched it.
local function choose_next(need)
  local waiting = waiting_runs(need.id)
  for n, run in ipairs(waiting) do
    local job = waits_still(run) and redis.call('HMGET', RQ_JOB .. run, 'origin', 'zs', 'created_at', 'rate_limit_key',
      'rate_limit_concurrency')
    local rate_limit = job and limit_of(job[4], job[5])
    if job and (rate_limit == false or not queue_accepts(job[1])) then
      need.waits = true
      return
    end
    need.gone = n
    if job then
      need.run, need.queue, need.rate_limit, need.waits = run, job[1], rate_limit, n < #waiting
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
      need.waits = redis.call('EXISTS', waiting_prefix .. need.id) == 1
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
    queue_run(need.run, need.queue, need.at_front, need.rate_limit)
    if need.is_uncertain then
      redis.call('HSET', RQ_JOB .. need.run, 'zs_uncertain', '1')
    end
  end
  cancel(need.lapsed or {})
  need.open[#need.open + 1] = need.run and {run = need.run} or nil
  return need.open
end

-- cancel_previous: waiting runs are withdrawn, except the last; the workers of started runs are asked to stop them, and
-- asked again after a while (lib/tell.lua), because a worker may have taken a run just now.
function POLICIES.cancel_previous.at_due(one, last)
  one.before = open_jobs(one.id, pushed_runs(one.id, last))
  for _, job in ipairs(open_jobs(one.id, waiting_runs(one.id))) do  -- by a former policy
    one.before[#one.before + 1] = job
  end
  plan_cancels(one.before, string.format(REPLACED, one.mode))
  return 'free'
end

function POLICIES.cancel_previous.join(one)
  follow(one.id, one.mode, cancel(one.before), one.run)
end

-- The last run stays until all are over: a run that was asked to stop may be tried again.
function POLICIES.cancel_previous.need(need, runs)
  need.last = {run = runs[#runs]}
  if #need.open > 0 and need.open[#need.open].run == need.last.run then
    need.open[#need.open], need.is_last_open = nil, true
  end
  plan_cancels(need.open, string.format(REPLACED, need.mode))
end

function POLICIES.cancel_previous.mend(need)
  local left = cancel(need.open)
  if #left > 0 or need.is_last_open then
    left[#left + 1] = need.last
  end
  return left
end

function has_chain(mode)
  return POLICIES[mode].need ~= nil
end

function overlapping(one, last, patience_ms)
  local policy = POLICIES[one.mode]
  if policy.need and not is_a(chains_key, 'hash') then
    return 'broken', 'wrong type at ' .. chains_key .. ' (' .. redis.call('TYPE', chains_key).ok .. ')'
  end
  return policy.at_due(one, last, patience_ms)
end

function join(one)
  local policy = POLICIES[one.mode]
  if policy.join then
    policy.join(one)
  end
end

function need_of(id, text)
  local mode, rest = string.match(text, '^(%S+)(.*)$')
  local policy, runs = POLICIES[mode or ''], {}
  for run in string.gmatch(rest or '', '%S+') do
    runs[#runs + 1] = run
  end
  local need = {id = id, mode = mode, text = text, open = open_jobs(id, runs)}
  if policy and policy.need then
    policy.need(need, runs)
  end
  return need
end

function mend(need)
  local policy = POLICIES[need.mode or '']
  local left = policy and policy.mend and policy.mend(need) or {}
  if #left == 0 and not need.waits then
    redis.call('HDEL', chains_key, need.id)
  else
    follow(need.id, need.mode, left, nil, need.text)
  end
end
