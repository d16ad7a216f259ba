-- fire: move due one-shots to their RQ queues; return the due recurring schedules for Python to plan.
--
-- KEYS   lease meta log @lanes quarantine rq_queues rq_limits deadlines limits recurring
-- ARGV   @prefixes moved_prefix
--        @term
--        clock_from_ms clock_until_ms  range of TIME that is possible by the caller's monotonic clock
--        limit                        most schedules looked at
--        lacking                      zones that the leader's machine lacks, by spaces; see set_aside.lua
-- RETURNS  OK, now in microseconds, next due ms after this batch or '', number looked at, number pushed, lists of
--          skipped, expired and cancelled as in LOGS, list of quarantined schedules (lists of id and reason), number
--          uncertain, the due recurring schedules, each with eight texts: id, word of lib/lanes, due ms, version,
--          trigger, anchor, nominal, policy; and a list of the keys of a wrong type that were found and left alone
--          |  STALE  |  SERVER  |  HELD, now ms, hold ms  |  JUMPED, now ms
-- LOGS   fire: runs = run ids pushed · uncertain = pushed runs that a lost history may have pushed before ·
--        skipped = uncertain and on_uncertain=skip · expired = later than their deadlines ·
--        cancelled = <run id>=<RQ status, or as in lib/moved.lua> · doubt = its new value in ms. An empty field is left
--        out.
--        quarantine: rows = id, "<lane> <due ms>", reason
--
-- Removal from the ZSET makes the push happen exactly once. No payload is read. The namespace's own set says which
-- schedules are recurring, before any job is read: a program that may write rq:job:* could make a job at the next run
-- id of a rule, which looks like a waiting one-shot. `zs` of a waiting one-shot has its special properties: "1" = none,
-- f = at the front, s = skip when uncertain, e = it has a deadline, l = it has a rate limit of RQ's, and is queued when
-- the limit has a slot, m = an import took it from RQ.
--
-- If doubt is later than TIME, the clock jumped back after it was set: doubt becomes TIME, and a hold is cleared (rule:
-- CLAMP). A one-shot that was put after the last change of server is in no doubt, once the archives show that nothing
-- was lost then (meta.shown), unless it is due within the doubt of an earlier loss (rule: WHENEVER_PUT).
--
-- A due schedule is throttled if its queue has no room (lib/room.lua), so that it never blocks others. It is read
-- before its lane when there is room again. This does not change the schedule, so nothing is logged.
--
-- A key of a wrong type stops as little as possible: docs/reference/protocol.md has the list.
clock_from_ms, clock_until_ms, limit = tonumber(clock_from_ms), tonumber(clock_until_ms), tonumber(limit)
-- include lib/hold.lua
-- include lib/deadline.lua
-- include lib/slots.lua
-- include lib/room.lua
-- include lib/moved.lua

local is_doubt_ahead = doubt_ms > now_ms
if is_doubt_ahead then
  doubt_ms = now_ms
end

local LAST_MS = '253402300799999'  -- the year 9999; a score beyond it is of another writer, and no integer

local runs, job_keys = {}, {}  -- pushed runs and the keys of their jobs; then the runs with a rate limit
local limited = {}  -- runs with a rate limit, each with its queue and whether it goes to the front
local uncertain, skipped, expired, cancelled, quarantined, rows, recurring = {}, {}, {}, {}, {}, {}, {}
local deadlines, dropped, bad, leaving, throttling = {}, {}, {}, {}, {}
local wrong, is_noted = {}, {}  -- keys of a wrong type
local pcall = redis.pcall
local NO_JOB = {}
local recurring_type = redis.call('TYPE', recurring_key).ok

local function note_wrong(key)
  if not is_noted[key] then
    is_noted[key] = true
    wrong[#wrong + 1] = key
  end
end

local FEW = 32  -- schedules; a round trip seldom finds more

-- Return the ids of due schedules in a ZSET, at most *most*, past the first *passed*; and the due time of each. If a
-- few in a row have the same due time, thousands may have it. Then the others with that time are read without it: Redis
-- before 7.2 takes longer to write a score than for anything else here.
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
    size = most
    local at = times[n]
    if n < most and at == found[2] then
      size = FEW
      for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', at, 'LIMIT', passed + n, most - n)) do
        n = n + 1
        ids[n], times[n] = id, at
      end
    end
  end
  return ids, times
end

-- Return a list with 1 for each of *ids* that is recurring; empty if the namespace has no recurring schedule.
local function recurring_of(ids)
  local answers = {}
  if recurring_type == 'none' or not ids[1] then
    return answers
  end
  if recurring_type == 'set' then
    return redis.call('SMISMEMBER', recurring_key, unpack(ids))
  end
  note_wrong(recurring_key)
  for n, id in ipairs(ids) do
    answers[n] = redis.call('EXISTS', schedule_prefix .. id)
  end
  return answers
end

-- Return whether the one-shot of *job_key*, due until the end of the doubt, may have been pushed in a lost history.
local shown, doubt_iso
local function is_in_doubt(job_key, due_ms)
  shown = shown or redis.call('HMGET', meta_key, 'shown', 'lost')
  doubt_iso = doubt_iso or iso(doubt_ms)
  if shown[1] ~= '1' or shown[2] and not (is_ms(shown[2]) and tonumber(due_ms) > tonumber(shown[2])) then
    return true
  end
  local created_at = redis.call('HGET', job_key, 'created_at')
  return not created_at or created_at <= doubt_iso
end

-- Throttle a schedule whose queue has no room. Return true if it leaves the ZSET named *word*; second value as in
-- take_special.
local function throttle(id, word, due_ms, queue)
  local to = lane_of(word) .. ':' .. queue
  if to == word then
    return false
  elseif not throttling[to] then
    if not is_a(key_of(to), 'zset') then
      note_wrong(key_of(to))
      return true, 'wrong type at ' .. name_of(key_of(to)) .. ' (' .. redis.call('TYPE', key_of(to)).ok .. ')'
    end
    throttling[to] = {}
  end
  local members = throttling[to]
  members[#members + 1] = due_ms
  members[#members + 1] = id
  return true
end

-- Handle any schedule that is not a plain waiting one-shot of an unlimited queue. Return true if it leaves the ZSET
-- named *word*; second value: the reason of its quarantine.
local function take_special(id, word, due_ms, run, job_key, job)
  local status, queue, flags = job[1], job[2], job[3]
  if job.err or not flags or status ~= 'scheduled' then
    if not string.find(id, '^[%w_-]+$') or #id > 128 then  -- another program wrote it; advance splits words at spaces
      return true, 'its id is malformed'
    end
    local schedule = pcall('HMGET', schedule_prefix .. id, 'version', 'trigger', 'anchor', 'nominal', 'policy')
    if schedule[1] and string.match(schedule[1], '^%d+%-%d+%-%d+$') then
      queue = is_limited and pcall('HGET', template_prefix .. id, 'origin')
      if room[queue] == 0 then
        return throttle(id, word, due_ms, queue)
      end
      spend(queue)
      local k = #recurring
      recurring[k + 1], recurring[k + 2], recurring[k + 3] = id, word, due_ms
      for field = 1, 5 do
        recurring[k + 3 + field] = schedule[field]
      end
      return false
    elseif flags and not job.err then
      cancelled[#cancelled + 1] = run .. '=' .. (word_of(status) or 'none')
      return true
    elseif schedule.err or job.err then
      return true, 'wrong type at its key'
    end
    return true, schedule[1] and 'its version is broken' or 'its hash is gone'
  elseif not queue_accepts(queue) and not select(2, queue_accepts(queue)) then
    return true, queue and 'wrong type at ' .. RQ_QUEUE .. name_of(queue) or 'its job names no queue'
  end
  local expires_ms = string.find(flags, 'e', 1, true) and whole_of(redis.call('HGET', job_key, 'zs_expires'))
  local deadline_ms = expires_ms and tonumber(due_ms) + expires_ms
  if deadline_ms and deadline_ms <= now_ms then
    expired[#expired + 1] = run
    dropped[#dropped + 1] = job_key
    return true
  end
  local is_uncertain = tonumber(due_ms) <= doubt_ms and is_in_doubt(job_key, due_ms)
  if string.find(flags, 'm', 1, true) then
    local why, is_unknown = undone(id)
    if why then
      cancelled[#cancelled + 1] = run .. '=' .. why
      dropped[#dropped + 1] = job_key
      return true
    end
    is_uncertain = is_uncertain or is_unknown
  end
  if is_uncertain and string.find(flags, 's', 1, true) then
    skipped[#skipped + 1] = run
    dropped[#dropped + 1] = job_key
    return true
  end
  if not queue_accepts(queue) then
    block(queue)
  end
  if room[queue] == 0 then
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
  if rate_limit then
    limited[#limited + 1] = {run = run, queue = queue, rate_limit = rate_limit, at_front = at_front}
  else
    runs[#runs + 1], job_keys[#job_keys + 1] = run, job_key
    push(queue, run, at_front)
  end
  deadlines[run] = deadline_ms
  if is_uncertain then
    uncertain[#uncertain + 1] = run
  end
  return true
end

local PAGES = 10  -- of a lane in one script: schedules that cannot be moved make it at most ten times as long
local STUCK_MS = 1000  -- until the next look at what fire cannot move
local looked, alone, is_stuck = 0, 0, false  -- alone: how many may have no place to go to

-- Take the due schedules of one ZSET, at most *most*, past the first *passed*. Return how many were looked at, and how
-- many leave.
local function look_at(word, most, passed)
  local key, name = key_of(word), lane_of(word)
  local gone = leaving[key] or {}
  local before = #gone
  local ids, times = due_in(key, most, passed)
  local is_doubtful = times[1] and tonumber(times[1]) <= doubt_ms  -- the oldest is, so others may be
  local is_recurring = recurring_of(ids)
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
    local queue = job[2]
    if job[3] == '1' and job[1] == 'scheduled' and queue ~= plain_queue and not is_doubtful and not room[queue]
      and queue_accepts(queue) then
      plain_queue, back = queue, back_of(queue)
    end
    if job[3] == '1' and job[1] == 'scheduled' and queue == plain_queue then
      runs[#runs + 1], job_keys[#job_keys + 1], back[#back + 1], gone[#gone + 1] = run, job_key, run, id
    else
      local leaves, problem = take_special(id, word, due_ms, run, job_key, job)
      if problem and not is_a(quarantine_key, 'hash') then
        note_wrong(quarantine_key)
        leaves, problem, is_stuck = false, nil, true
      end
      if leaves then
        gone[#gone + 1] = id
      end
      if problem then
        local shown = id == '' and '?' or name_of(id)
        bad[#bad + 1] = {id, name, due_ms, nil, problem}
        quarantined[#quarantined + 1] = {shown, problem}
        add_row(rows, shown, name .. ' ' .. due_ms, problem)
      end
    end
  end
  leaving[key] = #gone > 0 and gone or nil
  looked = looked + #ids
  return #ids, #gone - before
end

-- Take the due schedules of a lane. If the quarantine cannot be written, page past the schedules that stay, also past
-- recurring ones: advance may find no place for them either.
local function look_along(lane)
  local passed, pages, is_over = 0, 0, false
  while not is_over and looked - alone < limit do
    local most = limit - (looked - alone)
    local seen, left = look_at(lane, most, passed)
    local can_stay = seen > left and not is_a(quarantine_key, 'hash')
    passed, pages = passed + seen, pages + 1
    alone = alone + (can_stay and seen - left or 0)
    is_over = not can_stay or seen < most or pages == PAGES
  end
end

-- Take the throttled schedules of one lane and queue while there is room. Expired ones need no room.
local function look_at_throttled(word, queue)
  local passed = 0
  repeat
    local most = math.min(room[queue] or 0, limit - (looked - alone))
    local seen = most > 0 and look_at(word, most, passed) or 0
    passed = passed + seen
  until seen == 0
end

for _, lane in ipairs(lanes) do
  for queue in pairs(room) do
    if throttled[lane .. ':' .. queue] then
      look_at_throttled(lane .. ':' .. queue, queue)
    end
  end
  look_along(lane)
end

for _, one in ipairs(limited) do
  runs[#runs + 1] = one.run
end

local fields = {}
for _, field in ipairs({{'runs', runs}, {'uncertain', uncertain}, {'skipped', skipped}, {'expired', expired},
  {'cancelled', cancelled}, {'doubt', {is_doubt_ahead and string.format('%.0f', doubt_ms)}}}) do
  if field[2][1] then
    fields[#fields + 1], fields[#fields + 2] = field[1], table.concat(field[2], ' ')
  end
end
if #fields > 0 then
  append('fire', fields)
end
append_rows('quarantine', rows)

if is_doubt_ahead then
  redis.call('HSET', meta_key, 'doubt', string.format('%.0f', doubt_ms))
  local lost_ms = redis.call('HGET', meta_key, 'lost')
  if lost_ms and not (is_ms(lost_ms) and tonumber(lost_ms) <= now_ms) then
    redis.call('HSET', meta_key, 'lost', string.format('%.0f', now_ms))
  end
end
if hold_ms > now_ms then
  redis.call('HSET', meta_key, 'hold', '0')
end

local AT_ONCE = 4000  -- texts of one command; unpack fails near 8,000
for word, members in pairs(throttling) do
  for first = 1, #members, AT_ONCE do
    redis.call('ZADD', key_of(word), unpack(members, first, math.min(first + AT_ONCE - 1, #members)))
  end
  throttled[word] = true
end
for key, gone in pairs(leaving) do
  redis.call('ZREM', key, unpack(gone))
end
if #fields > 0 then
  local now_iso = iso(now_ms)
  local call = redis.call
  for n = 1, #job_keys do
    call('HSET', job_keys[n], 'status', 'queued', 'enqueued_at', now_iso)
  end
  for _, one in ipairs(limited) do
    hold_back(one.run, one.queue, one.rate_limit, one.at_front)
  end
  for _, run in ipairs(uncertain) do
    call('HSET', RQ_JOB .. run, 'zs_uncertain', '1')
  end
  for run, deadline_ms in pairs(deadlines) do
    set_deadline(run, deadline_ms)
  end
  if next(deadlines) and not is_a(deadlines_key, 'zset') then
    note_wrong(deadlines_key)
  end
  push_all()
  if #dropped > 0 then
    redis.call('DEL', unpack(dropped))
  end
end
for _, one in ipairs(bad) do
  park(quarantine_key, unpack(one, 1, 5))
end

local next_ms = looked - alone >= limit and now_ms or is_stuck and now_ms + STUCK_MS or ''
local function note_next(at_ms)
  if next_ms == '' or at_ms < next_ms then
    next_ms = at_ms
  end
end

for word in pairs(throttled) do
  local head = redis.call('ZRANGE', key_of(word), 0, 0, 'WITHSCORES')
  local queue, due_ms = string.match(word, ':(.*)$'), tonumber(head[2])
  if not due_ms then
    throttled[word] = nil
  elseif due_ms > now_ms then  -- the clock was set back
    note_next(due_ms)
  else
    note_next(room[queue] == 0 and room_again_ms(queue) or now_ms)
  end
end
if is_limited then
  note_room()
end
for _, lane in ipairs(next_ms == now_ms and {} or lanes) do
  local head = redis.call('ZRANGEBYSCORE', lane_keys[lane], '(' .. string.format('%.0f', now_ms), LAST_MS, 'WITHSCORES',
    'LIMIT', 0, 1)
  if head[2] then
    note_next(tonumber(head[2]))
  end
end
if not is_listed then
  note_wrong(rq_queues_key)
end
for queue in pairs(blocked) do
  if not queue_accepts(queue) then
    note_wrong(RQ_QUEUE .. queue)
  end
end
if looked == 0 or #recurring > 0 then  -- there is time; and advance may need them
  for key, kind in pairs({[deadlines_key] = 'zset', [quarantine_key] = 'hash', [recurring_key] = 'set'}) do
    if not is_a(key, kind) then
      note_wrong(key)
    end
  end
end
return {'OK', t, next_ms, looked, #runs, skipped, expired, cancelled, quarantined, #uncertain, recurring, wrong}
