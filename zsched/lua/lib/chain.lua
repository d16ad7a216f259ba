-- chain: the runs of a schedule that may be open, oldest first.
--
-- USES   chains_key
-- GIVES  open_chain(id, last)  its open runs, in the form of job_of
--        open_queue(id, last, limit, queue)  for runs that wait for each other: before, the open runs from the last
--          deferred run on, or all; waiting, the number of waiting runs, *limit* or more only if that many wait; text,
--          of all runs that stay
--        chains  by id, the text of the runs that stay
--        text_of(runs)  such a text
--        follow(id, mode, run, queue)  writes it
--
-- A chain is "<policy> <run> <run> …"; lib/overlap.lua has the rules of each policy. If the worker of a run seems dead,
-- the run stays in its chain until the leader looks at it.
-- include lib/status.lua
-- include lib/waiting.lua
local AT_ONCE = 1000  -- arguments of a call; Lua cannot unpack more than 8,000
local SPACE = 32  -- as a byte
chains = {}
local stale = {}

-- Return " <run> <run> …" with the run that was pushed last. It may be missing in the chain if run_now pushed it, or if
-- the policy was another one then.
local function held(id, last)
  local text = string.match(redis.call('HGET', chains_key, id) or '', ' .*') or ''
  if last and not string.find(text .. ' ', ' ' .. last .. ' ', 1, true) then
    text = text .. ' ' .. last
  end
  return text
end

-- Return the job of a run of schedule *id* if it is open; note a run that is gone or cancelled in `stale`.
local function meet(id, run)
  local job = job_of(run)
  if is_open(job.status) then
    return job
  elseif not job.status or job.status == 'canceled' then
    stale[id][#stale[id] + 1] = run
  end
end

function text_of(open)
  local words = {''}
  for _, one in ipairs(open) do
    words[#words + 1] = one.run
  end
  return table.concat(words, ' ')
end

function open_chain(id, last)
  local open = {}
  stale[id] = {}
  for run in string.gmatch(held(id, last), '[^ ]+') do
    open[#open + 1] = meet(id, run)
  end
  return open
end

local function count_waiting(open)
  local count = 0
  for _, one in ipairs(open) do
    count = count + (one.status == 'started' and 0 or 1)
  end
  return count
end

-- Return whether each of *runs* still is a deferred job of *queue*. Two calls for all take half as long as one per run.
local function all_wait(runs, queue)
  local keys, deferred_key = {}, RQ_DEFERRED .. queue
  for n, run in ipairs(runs) do
    keys[n] = RQ_JOB .. run
  end
  for first = 1, is_a(deferred_key, 'zset') and #runs or 0, AT_ONCE do
    local last = math.min(first + AT_ONCE - 1, #runs)
    if redis.call('EXISTS', unpack(keys, first, last)) <= last - first then
      return false
    end
    for _, score in ipairs(redis.call('ZMSCORE', deferred_key, unpack(runs, first, last))) do
      if not score then
        return false
      end
    end
  end
  return true
end

-- Return the open runs at the end of a chain, oldest first, from the last deferred run on; and the end of its id in the
-- text, or 0.
local function open_at_the_end(id, text)
  local open, to = {}, #text
  while to > 0 do
    local space = to
    while string.byte(text, space) ~= SPACE do
      space = space - 1
    end
    local job = meet(id, string.sub(text, space + 1, to))
    if job then
      table.insert(open, 1, job)
    end
    if job and job.status == 'deferred' then
      return open, to
    end
    to = space - 1
  end
  return open, 0
end

-- Return the open runs before the first deferred run; and the position of the space before its id. The chain must have
-- a deferred run.
local function open_in_front(id, text)
  local open, from = {}, 1
  while true do
    local first, to = string.find(text, '[^ ]+', from)
    local job = meet(id, string.sub(text, first, to))
    if job and job.status == 'deferred' then
      return open, first - 1
    end
    open[#open + 1], from = job, to + 1
  end
end

-- Return the text of the waiting runs from the first to the last deferred run, and their number. The number is exact if
-- it is *limit* or more.
local function between(id, text, limit, queue)
  local count, at, runs, open = 0, string.find(text, ' ', 1, true), {}, {}
  while at do
    count, at = count + 1, string.find(text, ' ', at + 1, true)
  end
  if count < limit then
    return text, count
  end
  for run in string.gmatch(text, '[^ ]+') do
    runs[#runs + 1] = run
  end
  if all_wait(runs, queue) then
    return text, #runs
  end
  for _, run in ipairs(runs) do
    open[#open + 1] = meet(id, run)
  end
  return text_of(open), count_waiting(open)
end

-- A chain of waiting runs is read from both ends, each up to a deferred run. The runs between them wait too, except a
-- run that was cancelled or expired out of turn. That matters only when the chain is full, so only then all are read.
function open_queue(id, last, limit, queue)
  local text, after = held(id, last), {}
  stale[id] = {}
  local before, to = open_at_the_end(id, text)
  if to == 0 then
    return {before = before, waiting = count_waiting(before), text = text_of(before)}
  end
  local ahead, from = open_in_front(id, text)
  for n = 2, #before do
    after[#after + 1] = before[n]
  end
  local waiting = count_waiting(ahead) + count_waiting(after)
  local waits, count = between(id, string.sub(text, from, to), limit - waiting, queue)
  return {before = before, waiting = waiting + count, text = text_of(ahead) .. waits .. text_of(after)}
end

function follow(id, mode, run, queue)
  redis.call('HSET', chains_key, id, mode .. chains[id] .. ' ' .. run)
  sweep(stale[id], queue)
end
