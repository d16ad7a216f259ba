-- overlap: the rules for a due occurrence whose earlier runs may be open. A policy is a row of POLICIES.
--
-- USES   now_ms waiting_prefix
-- GIVES  POLICIES  by name. A row has these functions:
--          at_due(one, last, patience_ms)  for *one*, a due occurrence with its id, mode, limit, run and queue:
--            'overlap', run | 'deferred', run | 'fired', why the run before does not count | 'quarantined', why. It
--            only reads, and without a `join` it does not read *one*
--          join(one)  if its runs wait for others or replace them: writes the chain with the new run (lib/chain.lua),
--            after the run was launched, or made to wait because of one.waits. unblock.lua has what follows
-- include lib/slots.lua
-- include lib/chain.lua
-- include lib/liveness.lua
POLICIES = {allow = {}, skip = {}, queue = {}, cancel_previous = {}}

function POLICIES.allow.at_due()
  return 'fired'
end

-- skip: only the last run counts, unless it has waited in its queue for too long.
local waits_before

function POLICIES.skip.at_due(_, last, patience_ms)
  local status = last and redis.pcall('HGET', RQ_JOB .. last, 'status')
  if not is_open(status) then
    return 'fired'
  end
  local is_over, queued_at, created_at =
    unpack(redis.call('HMGET', RQ_JOB .. last, 'zs_over', 'enqueued_at', 'created_at'))
  if (queued_at or '') == '' then  -- with a rate limit it waits for its first slot
    queued_at = status == 'rate_limited' and created_at
  end
  waits_before = waits_before or iso(now_ms - patience_ms)
  if is_over then  -- see restore_runs.lua
    return 'fired'
  elseif status == 'started' and not is_in_the_way(job_of(last)) then
    return 'fired', 'previous_worker_silent'
  elseif status ~= 'started' and queued_at and queued_at < waits_before then
    return 'fired', 'previous_waits_too_long'
  end
  return 'overlap', last
end

-- queue: a run waits in the list of its schedule while a run before it is open. It has the status `deferred`, and is in
-- none of RQ's registries, so only unblock.lua launches it. When a run that failed is queued again by hand while its
-- successor runs, both run.
function POLICIES.queue.at_due(one, last)
  local key = waiting_prefix .. one.id
  if not is_a(key, 'list') then
    return 'quarantined', 'wrong type at ' .. key .. ' (' .. redis.call('TYPE', key).ok .. ')'
  end
  one.before = {}  -- also a run that is over: its end is the reason of the next launch
  local room, newest = one.limit, nil
  for _, run in ipairs(pushed_runs(one.id, last)) do
    local job = job_of(run)
    if is_open(job.status) then
      room, newest = room - (job.status == 'started' and 0 or 1), run  -- it waits, too: for a worker
    end
    if is_open(job.status) or job.status and run ~= last then
      one.before[#one.before + 1] = job
    end
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
  return newest and 'deferred' or 'fired', newest
end

function POLICIES.queue.join(one)
  local key, left = waiting_prefix .. one.id, one.left or {}
  follow(one.id, 'queue', one.waits and one.before or {}, not one.waits and one.run or nil)
  if one.left then
    redis.call('DEL', key)
  end
  left[#left + 1] = one.waits and one.run or nil
  for _, run in ipairs(left) do
    redis.call('RPUSH', key, run)
  end
end

-- cancel_previous: the leader withdraws earlier runs that wait, and asks the workers of the others to stop them.
function POLICIES.cancel_previous.at_due(one, last)
  one.before = open_jobs(one.id, pushed_runs(one.id, last))
  return 'fired'
end

function POLICIES.cancel_previous.join(one)
  follow(one.id, one.mode, one.before, one.run)
end
