-- advance: fire planned occurrences of recurring schedules and set their next ones.
--
-- KEYS   lease meta log @lanes quarantine rq_queues rq_limits chains deadlines limits @trouble
-- ARGV   @prefixes waiting_prefix
--        @term
--        clock_from_ms clock_until_ms   as in fire
--        patience_ms                  a run that waits longer than this no longer counts for overlap
--        ...   per word of lib/lanes: the word, number of plans, number of schedules, the plans; then the ids and the
--              progresses of the schedules (lib/progress.lua), each list in the order of the plans. A plan is words by
--              single spaces: number of its schedules, nominal ms or - (nothing fires), its due ms, overlap policy,
--              most runs that may wait, next nominal ms or -, its due ms, and the record of occurrences that passed:
--              "<why>:<first ms>:<last ms>:<count>" by commas, or -
-- RETURNS  OK, now ms, then per schedule a word: fired deferred uncertain skipped overlap expired passed duplicate
--          changed quarantined
--          |  STALE  |  SERVER  |  HELD, now ms, hold ms  |  JUMPED, now ms
-- LOGS   advance: rows = id, "<word> <nominal[+<jitter>]|-> <next nominal|-> <next due|-> <passed|->", why or nothing
--        state: the schedules with another count of skipped occurrences (lib/state.lua)
--
-- A schedule is left alone (changed) if its progress differs from the plan's: whatever moves a schedule writes it. An
-- exhausted schedule is marked ended. A schedule is also left alone if its queue's key is of a wrong type. Then fire
-- looks at the queue before it returns a recurring schedule (lib/capacity.lua).
clock_from_ms, clock_until_ms, patience_ms = tonumber(clock_from_ms), tonumber(clock_until_ms), tonumber(patience_ms)
-- include lib/hold.lua
-- include lib/lanes.lua
-- include lib/launch.lua
-- include lib/overlap.lua
-- include lib/pushed.lua
-- include lib/states.lua

local pcall = redis.pcall
local IS_PUSHED = {fired = true, uncertain = true, deferred = true}
local PLAN = '^' .. string.rep('([^ ]+) ', 7) .. '([^ ]+)$'  -- [^ ] takes half as long as %S
local OF_ITS_RUN = '[efl]'  -- flags of schedules: the run needs more than the template

local function read_plan(text, word)
  local size, nominal_ms, due_ms, mode, limit, next_nominal_ms, next_due_ms, passed = string.match(text, PLAN)
  local run_due_ms, nominal, lane = tonumber(due_ms), nominal_ms, lane_of(word)
  if due_ms ~= nominal_ms then
    nominal = nominal_ms .. string.format('+%.0f', run_due_ms - tonumber(nominal_ms))
  end
  return {
    size = tonumber(size), key = key_of(word), lane = lane, mode = mode, has_chain = has_chain(mode),
    limit = tonumber(limit), fires = nominal_ms ~= '-', run = nominal_ms .. run_suffix,
    run_due_ms = run_due_ms, is_doubtful = run_due_ms and run_due_ms <= doubt_ms,
    next_nominal_ms = next_nominal_ms, next_due_ms = next_due_ms, words = {},
    recorded = ' ' .. nominal .. ' ' .. next_nominal_ms .. ' ' .. next_due_ms .. ' ' .. passed,
  }
end

-- Decide the occurrence of *one* by its *plan*; its run is new. Return the word, and why.
local function decide(one, plan, last, flags)
  local expires_ms = string.find(flags, 'e', 1, true) and whole_of(redis.call('HGET', one.template, 'zs_expires'))
  one.deadline_ms = expires_ms and plan.run_due_ms + expires_ms
  if one.deadline_ms and one.deadline_ms <= now_ms then
    return 'expired'
  end
  if plan.is_doubtful and string.find(flags, 's', 1, true) then
    return 'skipped'
  end
  local wrong_key
  if string.find(flags, 'l', 1, true) then
    one.rate_limit, wrong_key = limit_of(unpack(redis.call('HMGET', one.template, 'rate_limit_key',
      'rate_limit_concurrency')))
  end
  if wrong_key then
    return 'quarantined', 'wrong type at ' .. wrong_key
  end
  local verdict, why = overlapping(one, last, patience_ms)
  if verdict == 'overlap' then
    return 'overlap', why
  elseif verdict == 'broken' then
    return 'quarantined', why
  end
  one.is_uncertain, one.at_front = plan.is_doubtful, string.find(flags, 'f', 1, true)
  return plan.is_doubtful and 'uncertain' or verdict == 'free' and 'fired' or 'deferred', why
end

-- Lists by the number of a schedule that changes. ones: false where the template is all that the run needs.
local reply, rows, bad, blocked = {'OK', now_ms}, {}, {}, {}
local ids, plans, words, runs, run_queues, ones, progresses = {}, {}, {}, {}, {}, {}, {}
local plain_queue, has_jobs  -- the last queue that was found to accept runs: most are alike; a key of these runs exists

-- Count the occurrences in a row that were skipped for overlap.
local function count_skip(id, word, plan, state)
  local before, has_next = state ~= '-' and count_in(state, 'skips') or 0, plan.next_due_ms ~= '-'
  if word == 'overlap' and has_next then
    change_state(id, with_count(state, 'skips', before + 1))
  elseif before > 0 and (IS_PUSHED[word] or not has_next) then
    change_state(id, with_count(state, 'skips', 0))
  end
end

local function look_at(id, seen_progress, plan, run)
  local schedule = pcall('HMGET', schedule_prefix .. id, 'progress', 'flags')
  local queue = pcall('HGET', template_prefix .. id, 'origin')
  local version, last, state = string.match(seen_progress, '^([^ ]+) [^ ]+ ([^ ]+) ([^ ]+)$')
  local word, why, one = nil, nil, false
  if schedule[1] ~= seen_progress then
    word = 'changed'
  elseif type(queue) ~= 'string' then
    word, why = 'quarantined', 'its template is gone or of the wrong type'
  elseif queue ~= plain_queue and not queue_accepts(queue) then
    local can_wait = select(2, queue_accepts(queue))
    word, why = can_wait and 'changed' or 'quarantined', 'wrong type at ' .. RQ_QUEUE .. name_of(queue)
    blocked[#blocked + 1] = can_wait and queue or nil
  elseif not plan.fires then
    word = 'passed'
  elseif has_jobs and not make_way(run) then
    word = 'duplicate'
  elseif plan.is_doubtful or plan.has_chain or schedule[2] and string.find(schedule[2], OF_ITS_RUN) then
    one = {id = id, mode = plan.mode, limit = plan.limit, run = run, queue = queue, template = template_prefix .. id}
    word, why = decide(one, plan, last ~= '-' and id .. '-' .. last, schedule[2] or '')
  else
    word, why = overlapping(plan, last ~= '-' and id .. '-' .. last, patience_ms)
    word, plain_queue = word == 'free' and 'fired' or word, queue
  end
  reply[#reply + 1] = word
  if word == 'changed' then
    return
  end
  plan.words[word] = plan.words[word] or word .. plan.recorded
  add_row(rows, id, plan.words[word], why)
  if word == 'quarantined' then
    bad[#bad + 1] = {id = id, plan = plan, why = why}
    return
  end
  local n = #ids + 1
  ids[n], plans[n], words[n], runs[n], run_queues[n], ones[n] = id, plan, word, run, queue, one
  last = IS_PUSHED[word] and plan.run or last
  progresses[n] = version .. ' ' .. plan.next_nominal_ms .. ' ' .. last .. ' ' .. state
  count_skip(id, word, plan, state)
end

local at = ROWS
while at <= #ARGV do
  local word, plan_count, size = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local first = at + 3 + plan_count
  local plan_of, run_of, job_keys, n = {}, {}, {}, 0
  for i = at + 3, first - 1 do
    local plan = read_plan(ARGV[i], word)
    for _ = 1, plan.size do
      local run = ARGV[first + n] .. '-' .. plan.run
      n = n + 1
      plan_of[n], run_of[n], job_keys[n] = plan, run, RQ_JOB .. run
    end
  end
  has_jobs = redis.call('EXISTS', unpack(job_keys)) > 0
  for i = 1, size do
    local k = first + i - 1
    look_at(ARGV[k], ARGV[k + size], plan_of[i], run_of[i])
  end
  at = first + 2 * size
end
log_states()
append_rows('advance', rows)
for _, queue in ipairs(blocked) do
  redis.call('HSETNX', limits_key, queue, '- 0')
end
if #rows == 0 then
  return reply
end

local plain = {}
local function start(id, run, queue, one, is_new)
  if not one then
    plain.template, plain.is_new = template_prefix .. id, is_new
    launch(run, queue, plain)
    return
  end
  launch(run, queue, one)
  join(one)
end

local returning = {high = {}, normal = {}, low = {}}
for k, id in ipairs(ids) do
  local plan, run, schedule_key = plans[k], runs[k], schedule_prefix .. id
  local is_pushed = IS_PUSHED[words[k]]
  if is_pushed then
    start(id, run, run_queues[k], ones[k], not has_jobs)
  end
  if plan.next_due_ms == '-' then
    redis.call('ZREM', plan.key, id)
    redis.call('HSET', schedule_key, 'progress', progresses[k], 'ended_at', string.format('%.0f', now_ms))
  else
    local lane = returning[plan.lane]
    if plan.key ~= lane_keys[plan.lane] then
      redis.call('ZREM', plan.key, id)
    end
    local place = #lane
    lane[place + 1], lane[place + 2] = plan.next_due_ms, id
    redis.call('HSET', schedule_key, 'progress', progresses[k])
  end
end
for lane, members in pairs(returning) do
  if #members > 0 then
    redis.call('ZADD', lane_keys[lane], unpack(members))
  end
end
write_states()
push_all()
for _, one in ipairs(bad) do
  local due_ms = redis.call('ZSCORE', one.plan.key, one.id)
  redis.call('ZREM', one.plan.key, one.id)
  park(quarantine_key, one.id, one.plan.lane, due_ms or '-', nil, one.why)
end
return reply
