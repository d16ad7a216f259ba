-- unblock: release runs that RQ would leave waiting, withdraw those that a later one replaces, forget what is over.
--
-- KEYS   lease meta log chains rq_queues deadlines
-- ARGV   token expected_server        this term's
--        ...   five texts per chain: its schedule's id, its text as it was seen, what was seen of its first runs, their
--              statuses by spaces (- of one that is gone), the run that is to be released or -, and why
-- RETURNS  OK, now ms, list of the runs that were released, list of the chains that are not as they were seen
--          |  STALE  |  SERVER
-- LOGS   unblock: rows = run id, why
--        end: rows, of runs that were withdrawn, as in advance
--
-- A chain is left alone when its text or one of those statuses is another by now. Released is the run behind those that
-- were seen, when it still is RQ's deferred job; what was before it leaves the chain. RQ's worker may release it at the
-- same time: the dependents that it watches lose this run here, so one of the two comes too late. Of a chain of
-- `cancel_previous` all but the last run are withdrawn, or their workers told (lib/tell.lua says how often); it stays
-- until they are over.
local lease_key, meta_key, log_key, chains_key, rq_queues_key, deadlines_key = unpack(KEYS)
local token, expected_server = unpack(ARGV, 1, 2)
-- include lib/meta.lua
-- include lib/fence.lua
-- include lib/iso.lua
-- include lib/queues.lua
-- include lib/launch.lua
-- include lib/status.lua
-- include lib/waiting.lua
-- include lib/withdraw.lua

if not is_a(chains_key, 'hash') then
  return redis.error_reply('WRONGTYPE ' .. chains_key .. ' is no hash')
end

local function words_of(text)
  local words = {}
  for word in string.gmatch(text, '%S+') do
    words[#words + 1] = word
  end
  return words
end

-- Whether its first runs are as they were seen.
local function is_as_seen(runs, statuses)
  for n, seen in ipairs(statuses) do
    if not runs[n] or status_of(runs[n]) ~= seen then
      return false
    end
  end
  return true
end

-- The job of a run that waits, when it can be released.
local function waiting(run)
  local job = redis.pcall('HMGET', 'rq:job:' .. run, 'status', 'origin', 'enqueue_at_front')
  local queue = job[2]
  if job[1] ~= 'deferred' or not queue_accepts(queue) or not is_a('rq:deferred:' .. queue, 'zset') then
    return nil
  end
  return {run = run, queue = queue, at_front = job[3] == '1', dependencies = dependencies_of(run)}
end

-- What becomes of a chain, or nil: its mode, the runs that stay, the one that is released, those that are withdrawn.
local function decide(chain, statuses, run)
  local runs = words_of(chain)
  local mode = table.remove(runs, 1)
  local one = {mode = mode, left = {}, stale = {}}
  if mode == 'cancel_previous' and #runs > 0 then  -- without runs it is no chain: nothing of it stays
    one.last, one.before = table.remove(runs), {}
    for _, each in ipairs(runs) do
      local job = job_of(each)
      one.before[#one.before + 1] = is_open(job.status) and job or nil
    end
    one.is_last_open = is_open(status_of(one.last))
    plan_cancels(one.before)
    return one
  end
  if not is_as_seen(runs, statuses) then
    return nil
  end
  if run ~= '-' then
    one.released = runs[#statuses + 1] == run and waiting(run)
    if not one.released then
      return nil
    end
  end
  for n, each in ipairs(runs) do
    if n > #statuses or run == '-' and is_open(statuses[n]) then
      one.left[#one.left + 1] = each
    elseif statuses[n] == '-' or statuses[n] == 'canceled' then
      one.stale[#one.stale + 1] = each
    end
  end
  return one
end

local decided, rows, released, changed = {}, {}, {}, {}
for i = 3, #ARGV, 5 do
  local id, chain, seen, run, why = unpack(ARGV, i, i + 4)
  local one = redis.call('HGET', chains_key, id) == chain and decide(chain, words_of(seen), run)
  if not one then
    changed[#changed + 1] = id
  else
    one.id, one.chain = id, chain
    decided[#decided + 1] = one
    if one.released then
      released[#released + 1] = run
      add_row(rows, run, why)
    end
  end
end

append_rows('unblock', rows)
append_rows('end', ends)
for _, one in ipairs(decided) do
  if one.before then
    for _, each in ipairs(cancel(one.before)) do
      one.left[#one.left + 1] = each.run
    end
    if #one.left > 0 or one.is_last_open then
      one.left[#one.left + 1] = one.last
    end
  end
  if one.released then
    requeue(one.released.run, one.released.queue, one.released.at_front)
    redis.call('ZREM', 'rq:deferred:' .. one.released.queue, one.released.run)
    depend_no_more(one.released.run, one.released.dependencies)
  end
  sweep(one.stale, one.released and one.released.queue)
  local left = #one.left > 0 and one.mode .. ' ' .. table.concat(one.left, ' ')
  if not left then
    redis.call('HDEL', chains_key, one.id)
  elseif left ~= one.chain then
    redis.call('HSET', chains_key, one.id, left)
  end
end
push_all()
return {'OK', now_ms, released, changed}
