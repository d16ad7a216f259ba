-- fire: move due one-shots to their RQ queues; return the due recurring schedules for Python to plan.
--
-- KEYS   lease meta log @lanes quarantine rq_queues rq_limits deadlines limits recurring
-- ARGV   @prefixes moved_prefix
--        @term
--        clock_from_ms clock_until_ms  range of TIME that is possible by the caller's monotonic clock
--        limit                        most schedules looked at
--        lacking                      zones that the leader's machine lacks, by spaces; see set_aside.lua
-- RETURNS  OK, now in microseconds, next due ms after this batch or '', number looked at, number pushed, lists of
--          skipped, expired and cancelled as in LOGS, id and reason per quarantined schedule, number uncertain,
--          per ZSET a list of its word of lib/lanes and six texts per due recurring schedule (id, due ms, progress,
--          trigger, anchor, policy), and a list of RQ's keys of a wrong type
--          |  STALE  |  SERVER  |  HELD, now ms, hold ms  |  JUMPED, now ms
-- LOGS   fire: runs = run ids pushed · uncertain = those that a lost history may have pushed · skipped = uncertain
--        before the push · expired · cancelled = <run id>=<RQ status, or as in lib/moved.lua> · doubt = its new ms
--        quarantine: rows = id, "<lane> <due ms>", reason
--
-- Removal from the ZSET makes the push happen exactly once. docs/reference/protocol.md has the rules and their names.
limit = tonumber(limit)
-- include lib/hold.lua
-- include lib/deadline.lua
-- include lib/slots.lua
-- include lib/capacity.lua
-- include lib/moved.lua
-- include lib/rows.lua

local new_doubt = doubt_ms > now_ms and string.format('%.0f', now_ms)  -- CLAMP
local runs, job_keys = {}, {}  -- pushed runs; keys of their jobs, without those of a rate limit
local limited = {}  -- arguments of queue_run for runs with a rate limit
local uncertain, skipped, expired, cancelled, quarantined, rows, recurring = {}, {}, {}, {}, {}, {}, {}
local deadlines, dropped, bad, leaving, throttling = {}, {}, {}, {}, {}
local pcall = redis.pcall
local call = redis.call
local NO_JOB, NEVER = {}, math.huge
local FEW = 4  -- schedules that show whether many have the same due time
local has_recurring, shown, doubt_iso = redis.call('EXISTS', recurring_key) == 1  -- the others: see is_in_doubt

-- Return the ids of due schedules in a ZSET, at most *most*, past the first *passed*; and the due time of each. If a
-- few in a row have the same due time, the others with that time are read without it: Redis takes longer to write a
-- score than for anything else here.
local function due_in(key, most, passed)
  local ids, times, n, size = {}, {}, 0, FEW
  while n < most do
    local wanted = math.min(size, most - n)
    local found = redis.call('ZRANGEBYSCORE', key, '-inf', now_ms, 'WITHSCORES', 'LIMIT', passed + n, wanted)
    for i = 1, #found, 2 do
      n = n + 1
      ids[n], times[n] = found[i], found[i + 1]
    end
    if #found < 2 * wanted then
      break
    end
    local at = times[n]
    size = at == found[2] and FEW or most
    if n < most and at == found[2] then
      found = redis.call('ZRANGEBYSCORE', key, '-inf', at, 'LIMIT', passed + n, most - n)
      for i = 1, #found do
        ids[n + i], times[n + i] = found[i], at
      end
      n = n + #found
    end
  end
  return ids, times
end

-- Return whether the one-shot of *job_key*, due until the end of the doubt, may have been pushed in a lost history.
local function is_in_doubt(job_key, due_ms)
  shown = shown or redis.call('HMGET', meta_key, 'shown', 'lost')
  doubt_iso = doubt_iso or iso(doubt_ms)
  if shown[1] ~= '1' or shown[2] and tonumber(due_ms) <= (whole_of(shown[2]) or now_ms) then
    return true
  end
  local created_at = redis.call('HGET', job_key, 'created_at')
  return not created_at or created_at <= doubt_iso
end

-- Throttle a schedule. Return true if it leaves the ZSET named *word*.
local function throttle(id, word, due_ms, queue)
  local to = lane_of(word) .. ':' .. queue
  if to == word then
    return false
  elseif not throttling[to] then
    redis.call('ZCARD', key_of(to))  -- see lib/meta.lua
    throttling[to] = {}
  end
  local members = throttling[to]
  local n = #members
  members[n + 1], members[n + 2] = due_ms, id
  return true
end

local function drop(list, text, job_key)
  list[#list + 1], dropped[#dropped + 1] = text, job_key
  return true
end

-- Handle an id without a waiting one-shot: a recurring schedule or an invalid one. Return true if it leaves its ZSET;
-- second value: the reason of its quarantine.
local function take_other(id, word, due_ms, run, _, job)
  if not string.find(id, '^[%w_-]+$') or #id > 128 then  -- another program wrote it; advance splits words at spaces
    return true, 'its id is malformed'
  end
  local schedule = pcall('HMGET', schedule_prefix .. id, 'progress', 'trigger', 'anchor', 'policy')
  if schedule[1] then
    local queue = is_limited and pcall('HGET', template_prefix .. id, 'origin')
    if capacity[queue] == 0 then
      return throttle(id, word, due_ms, queue)
    end
    spend(queue)
    local found = recurring[#recurring]
    local k = #found
    found[k + 1], found[k + 2] = id, due_ms
    found[k + 3], found[k + 4], found[k + 5], found[k + 6] = unpack(schedule)
    return false
  elseif job[3] then
    return drop(cancelled, run .. '=' .. (word_of(job[1]) or 'none'))
  end
  return true, (schedule.err or job.err) and 'wrong type at its key' or 'its hash is gone'
end

-- Handle a waiting one-shot that is not plain, or is the first of its queue. Return as take_other.
local function take_one_shot(id, word, due_ms, run, job_key, job)
  local queue, flags = job[2], job[3]
  local is_accepting, is_named = queue_accepts(queue)
  if not is_accepting and not is_named then
    return true, queue and 'wrong type at ' .. RQ_QUEUE .. name_of(queue) or 'its job names no queue'
  end
  local expires_ms = string.find(flags, 'e', 1, true) and whole_of(redis.call('HGET', job_key, 'zs_expires'))
  local deadline_ms = expires_ms and tonumber(due_ms) + expires_ms
  if deadline_ms and deadline_ms <= now_ms then
    return drop(expired, run, job_key)
  end
  local is_uncertain = tonumber(due_ms) <= doubt_ms and is_in_doubt(job_key, due_ms)
  if string.find(flags, 'm', 1, true) then
    local why, is_unknown = undone(id)
    if why then
      return drop(cancelled, run .. '=' .. why, job_key)
    end
    is_uncertain = is_uncertain or is_unknown
  end
  if is_uncertain and string.find(flags, 's', 1, true) then
    return drop(skipped, run, job_key)
  end
  if not is_accepting then
    block(queue)
  end
  if capacity[queue] == 0 then
    return throttle(id, word, due_ms, queue)
  end
  local rate_limit, wrong_key
  if string.find(flags, 'l', 1, true) then
    rate_limit, wrong_key = limit_of(unpack(redis.call('HMGET', job_key, 'rate_limit_key', 'rate_limit_concurrency')))
  end
  if wrong_key then
    return true, 'wrong type at ' .. wrong_key
  end
  spend(queue)
  local at_front = string.find(flags, 'f', 1, true)
  runs[#runs + 1], deadlines[run] = run, deadline_ms
  if rate_limit then
    limited[#limited + 1] = {run, queue, at_front, rate_limit}
  else
    job_keys[#job_keys + 1] = job_key
    push(queue, run, at_front)
  end
  uncertain[#uncertain + 1] = is_uncertain and run or nil
  return true
end

-- Take the due schedules of a lane, or the throttled ones of a queue: at most *most*, past the first *passed*. Return
-- how many there were.
local looked = 0
local function look_at(word, most, passed)
  local key, name = key_of(word), lane_of(word)
  local stays = {}
  recurring[#recurring + 1] = {word}
  local ids, times = due_in(key, math.min(most, limit - looked), passed)
  local is_doubtful = times[1] and tonumber(times[1]) <= doubt_ms  -- the oldest is, so others may be
  local is_recurring = has_recurring and ids[1] and redis.call('SMISMEMBER', recurring_key, unpack(ids)) or {}
  local due_ms, tail, plain_queue, back  -- of the schedule before: most are alike
  for n = 1, #ids do
    local id = ids[n]
    if times[n] ~= due_ms then
      due_ms = times[n]
      tail = '-' .. due_ms .. run_suffix
    end
    local run, job_key, job = nil, nil, NO_JOB
    if is_recurring[n] ~= 1 then
      run = id .. tail
      job_key = RQ_JOB .. run
      job = pcall('HMGET', job_key, 'status', 'origin', 'zs')
    end
    local queue, is_plain = job[2], job[3] == '1' and job[1] == 'scheduled'
    if is_plain and queue ~= plain_queue and not is_doubtful and not capacity[queue] and queue_accepts(queue) then
      plain_queue, back = queue, back_of(queue)
    end
    if is_plain and queue == plain_queue then
      runs[#runs + 1], job_keys[#job_keys + 1], back[#back + 1] = run, job_key, run
    else
      local take = job[1] == 'scheduled' and job[3] and take_one_shot or take_other
      local leaves, problem = take(id, word, due_ms, run, job_key, job)
      stays[n] = not leaves or nil
      if problem then
        local shown = id == '' and '?' or name_of(id)
        bad[#bad + 1] = {id, name, due_ms, nil, problem}
        quarantined[#quarantined + 1] = {shown, problem}
        add_row(rows, shown, name .. ' ' .. due_ms, problem)
      end
    end
  end
  local is_head = ids[1] and passed == 0 and not next(stays)  -- those that leave are the first of the ZSET
  local gone = {key, last_rank = is_head and #ids - 1}
  for n = 1, is_head and 0 or #ids do
    gone[#gone + 1] = not stays[n] and ids[n] or nil
  end
  leaving[#leaving + 1] = (is_head or gone[2]) and gone or nil
  looked = looked + #ids
  return #ids
end

for _, lane in ipairs(lanes) do
  for queue in pairs(capacity) do
    local passed, seen = 0, throttled[lane .. ':' .. queue]
    while seen and seen ~= 0 do  -- expired and cancelled runs use no capacity
      seen = look_at(lane .. ':' .. queue, capacity[queue], passed)
      passed = passed + seen
    end
  end
  look_at(lane, limit, 0)
end

local fields = {}
for _, field in ipairs({{'runs', runs}, {'uncertain', uncertain}, {'skipped', skipped}, {'expired', expired},
  {'cancelled', cancelled}, {'doubt', {new_doubt}}}) do
  if field[2][1] then
    fields[#fields + 1], fields[#fields + 2] = field[1], table.concat(field[2], ' ')
  end
end
if #fields > 0 then
  append('fire', fields)
end
append_rows('quarantine', rows)

if new_doubt then
  redis.call('HSET', meta_key, 'doubt', new_doubt)
  local lost_ms = redis.call('HGET', meta_key, 'lost')
  if lost_ms and (whole_of(lost_ms) or NEVER) > now_ms then
    redis.call('HSET', meta_key, 'lost', new_doubt)
  end
end
if hold_ms > now_ms then
  redis.call('HSET', meta_key, 'hold', '0')
end

for _, gone in ipairs(leaving) do
  if gone.last_rank then  -- quicker
    redis.call('ZREMRANGEBYRANK', gone[1], 0, gone.last_rank)
  else
    redis.call('ZREM', unpack(gone))
  end
end
local AT_ONCE = 4000  -- texts of one command; unpack fails near 8,000
for word, members in pairs(throttling) do  -- behind the removals, which count from the head
  for first = 1, #members, AT_ONCE do
    redis.call('ZADD', key_of(word), unpack(members, first, math.min(first + AT_ONCE - 1, #members)))
  end
  throttled[word] = queue_of(word)
end
if #fields > 0 then
  local now_iso = iso(now_ms)
  for n = 1, #job_keys do
    call('HSET', job_keys[n], 'status', 'queued', 'enqueued_at', now_iso)
  end
  for _, one in ipairs(limited) do
    queue_run(unpack(one, 1, 4))
  end
  for _, run in ipairs(uncertain) do
    call('HSET', RQ_JOB .. run, 'zs_uncertain', '1')
  end
  for run, deadline_ms in pairs(deadlines) do
    set_deadline(run, deadline_ms)
  end
  push_all()
  if #dropped > 0 then
    redis.call('DEL', unpack(dropped))
  end
end
for _, one in ipairs(bad) do
  park(quarantine_key, unpack(one, 1, 5))
end

local LAST_MS = '253402300799999'  -- the year 9999; a score beyond it is of another writer, and no integer
local next_ms = looked >= limit and now_ms or NEVER
for word, queue in pairs(throttled) do
  local due_ms = tonumber(redis.call('ZRANGE', key_of(word), 0, 0, 'WITHSCORES')[2])
  if due_ms then  -- it is ahead if the clock was set back
    next_ms = math.min(next_ms, due_ms > now_ms and due_ms or capacity[queue] == 0 and free_again_ms(queue) or now_ms)
  else
    throttled[word] = nil
  end
end
if is_limited then
  write_capacity()
end
for _, lane in ipairs(next_ms == now_ms and {} or lanes) do
  local head = redis.call('ZRANGEBYSCORE', lane_keys[lane], '(' .. string.format('%.0f', now_ms), LAST_MS, 'WITHSCORES',
    'LIMIT', 0, 1)
  next_ms = math.min(next_ms, tonumber(head[2]) or NEVER)
end
local wrong = {not is_listed and rq_queues_key or nil}
for queue in pairs(blocked) do
  wrong[#wrong + 1] = not queue_accepts(queue) and RQ_QUEUE .. queue or nil
end
next_ms = next_ms < NEVER and next_ms or ''
return {'OK', t, next_ms, looked, #runs, skipped, expired, cancelled, quarantined, #uncertain, recurring, wrong}
