-- overlap: the rules for runs that wait for each other, or replace each other. A policy is a row of POLICIES.
--
-- USES   now_ms chains_key
-- GIVES  has_chain(mode)  its runs wait for others or replace them; else overlapping needs only *one*'s mode
--        overlapping(one, last, patience_ms)  for *one*, a due occurrence with its id, mode, limit, run and queue:
--          'overlap', run | 'deferred', run | 'free', why the run before does not count | 'broken', the problem. It
--          only reads
--        join(one)  then, before the run is launched
--        defer(one)  after it, if one.before has runs that it waits for
--        need_of(id, text)  for a pass over the chains of runs (lib/chain.lua): the action that a chain needs, or nil
--        POLICIES
--
-- A row may have these functions:
-- at_due(one, last, patience_ms)  decides, for overlapping
-- join(one)           changes open runs, and sets chains[one.id] to the text of the runs that stay
-- need(runs, mode)    returns the action that a chain of these runs needs: `what`, a word; `run` and `why`, of a run to
--                     release; is_urgent: nobody else will do it. For other actions the leader asks again, after RQ had
--                     time to do them
-- plan(need)          adds lines to the entry `end`
-- mend(need)          takes the action, and returns the runs that stay; lib/mend.lua calls plan and mend
-- include lib/slots.lua
-- include lib/chain.lua
-- include lib/liveness.lua
-- include lib/withdraw.lua
POLICIES = {allow = {}, skip = {}, queue = {}, cancel_previous = {}}

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

-- queue: a run waits as RQ's deferred job, a dependent of the runs before it, and RQ's worker releases it. RQ never
-- releases it if a run before it was cancelled, stopped or deleted, expired in its queue, or lost its worker. RQ 3
-- releases in two steps: when the run before ends, this run is `ready_to_enqueue`; then the worker puts it into its
-- queue. If the worker dies in between, RQ does it at its next maintenance, up to ten minutes later.
local IS_OVER = {canceled = 'was cancelled', stopped = 'was stopped'}
local IS_GONE = 'is gone: it expired, or somebody deleted it'

local function problem_of(one, before)
  local types = {{RQ_DEFERRED .. one.queue, 'zset'}, {dependencies_key(one.run), 'set'}}
  for _, run in ipairs(before) do
    types[#types + 1] = {dependents_key(run), 'set'}
  end
  for _, each in ipairs(types) do
    if not is_a(each[1], each[2]) then
      return 'wrong type at ' .. name_of(each[1]) .. ' (' .. redis.call('TYPE', each[1]).ok .. ')'
    end
  end
end

-- Let the run wait at the end of *chain*, a result of open_queue.
local function wait_behind(one, chain)
  local before = {}
  for n, each in ipairs(chain.before) do
    before[n] = each.run
  end
  chains[one.id] = chain.text
  if #before == 0 then
    return 'free'
  end
  local problem = problem_of(one, before)
  if problem then
    return 'broken', problem
  end
  one.before = before
  return 'deferred', before[#before]
end

function POLICIES.queue.at_due(one, last)
  local chain = open_queue(one.id, last, one.limit, one.queue)
  if chain.waiting >= one.limit then
    return 'overlap', chain.before[#chain.before].run
  end
  return wait_behind(one, chain)
end

-- By status: return the action that releases a waiting run, or nil if it must wait. No run before it in its chain is in
-- the way. *dead*: a run before it that lost its worker.
local LET_GO = {}

function LET_GO.deferred(waiting, dead)
  local before = waiting.waits_for and job_of(waiting.waits_for)
  if before and is_in_the_way(before) then
    return nil
  end
  local why = 'nobody knows what it waits for'
  dead = dead or before and is_open(before.status) and before
  if dead then
    why = 'the worker ' .. name_of(dead.worker) .. ' of ' .. dead.run .. ' died'
  elseif before then
    why = name_of(before.run) .. ' '
      .. (IS_OVER[before.status] or before.status and 'is over, and RQ did not say so' or IS_GONE)
  end
  return {what = 'release', run = waiting.run, why = why, is_urgent = dead or before and IS_OVER[before.status]}
end

-- A job without data expired before RQ wrote its status. It cannot run, and it ends RQ's workers (measured, RQ 3.0).
function LET_GO.ready_to_enqueue(ready)
  if redis.call('HEXISTS', RQ_JOB .. ready.run, 'data') == 0 then
    return {what = 'drop', gone = ready.run, is_urgent = true}
  end
  return {what = 'release', run = ready.run, why = 'RQ said that it is ready, and did not enqueue it'}
end

local function let_go(waiting, dead)
  local queue = waiting.queue
  if queue == '' or not queue_accepts(queue) or not is_a(RQ_DEFERRED .. queue, 'zset')
    or not is_a(RQ_READY .. queue, 'zset') then
    return nil
  end
  local need = LET_GO[waiting.status](waiting, dead)
  if need and waiting.limit_key then
    need.rate_limit = limit_of(waiting.limit_key, redis.call('HGET', RQ_JOB .. waiting.run, 'rate_limit_concurrency'))
  end
  if not need or need.rate_limit == false then
    return nil
  end
  need.queue = queue
  return need
end

function POLICIES.queue.need(runs)
  local open, left, stale, is_blocked, dead, need = {}, {}, {}, false, nil, nil
  for n, run in ipairs(runs) do
    local job = job_of(run)
    if LET_GO[job.status or ''] then
      need = not is_blocked and let_go(job, dead)
      if need then
        for behind = need.gone and n + 1 or n, #runs do
          left[#left + 1] = runs[behind]
        end
        need.left, need.stale = left, stale
      end
      return need or nil
    elseif is_in_the_way(job) then
      is_blocked = true
    elseif is_open(job.status) then
      dead = job
    elseif not job.status or job.status == 'canceled' then
      stale[#stale + 1] = run
    end
    if is_open(job.status) then
      open[#open + 1] = run
    end
  end
  return #open < #runs and {what = 'forget', left = open, stale = stale} or nil  -- nobody waits
end

function POLICIES.queue.mend(need)
  if need.run then
    local at_front = redis.call('HGET', RQ_JOB .. need.run, 'enqueue_at_front') == '1'
    queue_run(need.run, need.queue, at_front, need.rate_limit)
    redis.call('ZREM', RQ_DEFERRED .. need.queue, need.run)
    redis.call('ZREM', RQ_READY .. need.queue, need.run)
    depend_no_more(need.run, dependencies_of(need.run))
  elseif need.gone then
    redis.call('ZREM', RQ_READY .. need.queue, need.gone)
    redis.call('DEL', RQ_JOB .. need.gone)
    depend_no_more(need.gone, dependencies_of(need.gone))
  end
  sweep(need.stale, need.queue)
  return need.left
end

-- cancel_previous: waiting runs are withdrawn, except the last; the workers of started runs are asked to stop them, and
-- asked again after a while (lib/tell.lua), because a worker may have taken a run just now.
function POLICIES.cancel_previous.at_due(one, last)
  one.open = open_chain(one.id, last)
  plan_cancels(one.open, one.mode)
  return 'free'
end

function POLICIES.cancel_previous.join(one)
  chains[one.id] = text_of(cancel(one.open))
end

function POLICIES.cancel_previous.need(runs, mode)
  local open = {}
  for _, run in ipairs(runs) do
    local job = job_of(run)
    open[#open + 1] = is_open(job.status) and job or nil
  end
  local last = runs[#runs]
  local is_last_open = #open > 0 and open[#open].run == last
  if #runs == 1 and is_last_open then
    return nil
  end
  if is_last_open then
    open[#open] = nil
  end
  return {what = 'withdraw', is_urgent = true, open = open, last = last, is_last_open = is_last_open, mode = mode}
end

function POLICIES.cancel_previous.plan(need)
  plan_cancels(need.open, need.mode)
end

-- The last run stays until all are over: a run that was asked to stop may be tried again.
function POLICIES.cancel_previous.mend(need)
  local left = {}
  for n, one in ipairs(cancel(need.open)) do
    left[n] = one.run
  end
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
  if chains[one.id] then  -- before the launch: this may sweep remains of the same run from an earlier history
    follow(one.id, one.mode, one.run, one.queue)
  end
end

-- Make the run, which has a hash, wait for the runs before it.
function defer(one)
  local job_key, before = RQ_JOB .. one.run, one.before
  redis.call('HSET', job_key, 'status', 'deferred', 'dependency_id', before[1],
    'dependency_ids', '["' .. table.concat(before, '", "') .. '"]', 'allow_dependency_failures', '1')
  if one.at_front then
    redis.call('HSET', job_key, 'enqueue_at_front', '1')
  end
  for _, each in ipairs(before) do
    redis.call('SADD', dependents_key(each), one.run)
  end
  redis.call('SADD', dependencies_key(one.run), unpack(before))
  redis.call('ZADD', RQ_DEFERRED .. one.queue, string.format('%.0f', math.floor(now_ms / 1000)), one.run)
end

function need_of(id, text)
  local mode, rest = string.match(text or '', '^(%S+) (.*)$')
  local policy, runs = POLICIES[mode or ''], {}
  if not (policy and policy.need) then
    return nil
  end
  for run in string.gmatch(rest, '%S+') do
    runs[#runs + 1] = run
  end
  local need = policy.need(runs, mode)
  if need then
    need.id, need.mode, need.text = id, mode, text
  end
  return need
end
