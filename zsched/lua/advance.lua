-- advance: fire planned occurrences of recurring schedules and set their next ones.
--
-- KEYS   lease meta log @lanes quarantine rq_queues rq_limits chains deadlines limits @trouble
-- ARGV   @prefixes waiting_prefix
--        @term
--        clock_from_ms clock_until_ms   as in fire
--        patience_ms                  a run that waits longer than this no longer counts for overlap
--        ...   number of plans, the plans; then the ids and the progresses of the schedules (lib/progress.lua), each
--              list in the order of the plans. A plan is words by single spaces: number of its schedules, their word of
--              lib/lanes, nominal ms or - (nothing fires), its due ms, overlap policy, most runs that may wait, flags
--              or -, next nominal ms or -, its due ms, and the record of occurrences that passed:
--              "<why>:<first ms>:<last ms>:<count>" by commas, some with ":<note>", or -
-- RETURNS  OK, now ms, then in one text per schedule a word: fired deferred uncertain skipped overlap expired passed
--          duplicate changed quarantined
--          |  STALE  |  SERVER  |  HELD, now ms, hold ms  |  JUMPED, now ms
-- LOGS   advance: rows = id, "<word> <nominal[+<jitter>]|-> <next nominal|-> <next due|-> <passed|->", why or nothing
--        state: the schedules with another count of skipped occurrences, or fewer skips by hand (lib/state.lua)
--
-- A schedule is left alone (changed) if its progress differs from the plan's: whatever moves a schedule writes it. An
-- exhausted schedule is marked ended. A schedule is also left alone if its queue's key is of a wrong type. Then fire
-- looks at the queue before it returns a recurring schedule (lib/capacity.lua).
patience_ms = tonumber(patience_ms)
-- include lib/hold.lua
-- include lib/lanes.lua
-- include lib/launch.lua
-- include lib/overlap.lua
-- include lib/pushed.lua
-- include lib/states.lua

local pcall = redis.pcall
local call = redis.call
local IS_PUSHED = {fired = true, uncertain = true, deferred = true}
local PLAN = '^' .. string.rep('([^ ]+) ', 9) .. '([^ ]+)$'  -- [^ ] takes half as long as %S
local OF_ITS_RUN = '[efl]'  -- flags of schedules: the run needs more than the template

local function read_plan(text)
  local size, word, nominal_ms, due_ms, mode, limit, flags, next_nominal_ms, next_due_ms, passed =
    string.match(text, PLAN)
  local run_due_ms, policy = tonumber(due_ms), POLICIES[mode]
  local is_doubtful = run_due_ms and run_due_ms <= doubt_ms
  local jitter = due_ms ~= nominal_ms and string.format('+%.0f', run_due_ms - tonumber(nominal_ms)) or ''
  return {
    size = tonumber(size), key = key_of(word), lane = lane_of(word), fires = nominal_ms ~= '-', mode = mode,
    policy = policy, limit = tonumber(limit), flags = flags, run = nominal_ms .. run_suffix, run_due_ms = run_due_ms,
    is_doubtful = is_doubtful, next_nominal_ms = next_nominal_ms, next_due_ms = next_due_ms, words = {},
    is_usual = not (is_doubtful or policy.join or string.find(flags, OF_ITS_RUN)),
    recorded = ' ' .. nominal_ms .. jitter .. ' ' .. next_nominal_ms .. ' ' .. next_due_ms .. ' ' .. passed,
  }
end

-- Decide the occurrence of *one* by its *plan*; its run is new. Return the word, and why.
local function decide(one, plan, last)
  local expires_ms = string.find(plan.flags, 'e', 1, true) and whole_of(call('HGET', one.template, 'zs_expires'))
  one.deadline_ms = expires_ms and plan.run_due_ms + expires_ms
  if one.deadline_ms and one.deadline_ms <= now_ms then
    return 'expired'
  end
  if plan.is_doubtful and string.find(plan.flags, 's', 1, true) then
    return 'skipped'
  end
  local wrong_key
  if string.find(plan.flags, 'l', 1, true) then
    one.rate_limit, wrong_key = limit_of(unpack(call('HMGET', one.template, 'rate_limit_key',
      'rate_limit_concurrency')))
  end
  if wrong_key then
    return 'quarantined', 'wrong type at ' .. wrong_key
  end
  local verdict, why = plan.policy.at_due(one, last, patience_ms)
  if verdict == 'overlap' or verdict == 'quarantined' then
    return verdict, why
  end
  one.is_uncertain, one.at_front = plan.is_doubtful, string.find(plan.flags, 'f', 1, true)
  return plan.is_doubtful and 'uncertain' or verdict, why
end

-- Lists by the number of a schedule. progresses: the new ones of those that change; ones: nil if the template is all
-- that the run needs.
local ids, plans, runs, job_keys, words, queues, ones = {}, {}, {}, {}, {}, {}, {}
local schedule_keys, templates, progresses = {}, {}, {}
local rows, bad, blocked = {}, {}, {}
local plain_queue  -- the last queue that was found to accept runs: most are alike

local first = ROWS + 1 + tonumber(ARGV[ROWS])  -- of the ids
for i = ROWS + 1, first - 1 do
  local plan = read_plan(ARGV[i])
  for n = #ids + 1, #ids + plan.size do
    local id = ARGV[first + n - 1]
    local run = id .. '-' .. plan.run
    ids[n], plans[n], runs[n], job_keys[n] = id, plan, run, RQ_JOB .. run
  end
end
local has_jobs = ids[1] and call('EXISTS', unpack(job_keys)) > 0

-- Count the occurrences in a row that were skipped for overlap. Forget the skips by hand that the plan records: those
-- until the time from which it was made.
local function count_skip(id, word, plan, seen_nominal_ms, state)
  local has_next = plan.next_due_ms ~= '-'
  if state == '-' and not (word == 'overlap' and has_next) then
    return
  end
  local skips, until_ms = count_in(state, 'skips'), has_next and tonumber(seen_nominal_ms) or math.huge
  if word == 'overlap' and has_next then
    skips = skips + 1
  elseif IS_PUSHED[word] or not has_next then
    skips = 0
  end
  local to_come = string.gsub(state, 'skip=(%d+)', function(ms) return tonumber(ms) <= until_ms and '' end)
  local after = with_count(to_come, 'skips', skips)
  if after ~= state then
    change_state(id, after)
  end
end

local function look_at(k, seen_progress)
  local id, plan, run = ids[k], plans[k], runs[k]
  local schedule_key, template = schedule_prefix .. id, template_prefix .. id
  local progress, queue = pcall('HGET', schedule_key, 'progress'), pcall('HGET', template, 'origin')
  local nominal_ms, last, rest, state = string.match(seen_progress, '^([^ ]+) ([^ ]+)( ([^ ]+).*)$')
  local word, why
  if progress ~= seen_progress then
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
  elseif plan.is_usual then
    word, why = plan.policy.at_due(nil, last ~= '-' and id .. '-' .. last, patience_ms)
    plain_queue = queue
  else
    ones[k] = {id = id, mode = plan.mode, limit = plan.limit, run = run, queue = queue, template = template}
    word, why = decide(ones[k], plan, last ~= '-' and id .. '-' .. last)
  end
  words[k] = word
  if word == 'changed' then
    return
  end
  plan.words[word] = plan.words[word] or word .. plan.recorded
  add_row(rows, id, plan.words[word], why)
  if word == 'quarantined' then
    bad[#bad + 1] = {id = id, plan = plan, why = why}
    return
  end
  queues[k], schedule_keys[k], templates[k] = queue, schedule_key, template
  last = IS_PUSHED[word] and plan.run or last
  progresses[k] = plan.next_nominal_ms .. ' ' .. last .. rest
  count_skip(id, word, plan, nominal_ms, state)
end

for k = 1, #ids do
  look_at(k, ARGV[first + #ids + k - 1])
end
local reply = {'OK', now_ms, table.concat(words, ' ')}
log_states()
append_rows('advance', rows)
for _, queue in ipairs(blocked) do
  call('HSETNX', limits_key, queue, '- 0')
end
if #rows == 0 then
  return reply
end

local plain, returning = {}, {high = {}, normal = {}, low = {}}
for k = 1, #ids do
  local id, plan, progress = ids[k], plans[k], progresses[k]
  if progress and IS_PUSHED[words[k]] then
    local one = ones[k] or plain
    one.template, one.key = templates[k], job_keys[k]
    launch(runs[k], queues[k], one)
    if plan.policy.join then
      plan.policy.join(one)
    end
  end
  if progress and plan.next_due_ms == '-' then
    call('ZREM', plan.key, id)
    call('HSET', schedule_keys[k], 'progress', progress, 'ended_at', string.format('%.0f', now_ms))
  elseif progress then
    local lane = returning[plan.lane]
    if plan.key ~= lane_keys[plan.lane] then
      call('ZREM', plan.key, id)
    end
    local place = #lane
    lane[place + 1], lane[place + 2] = plan.next_due_ms, id
    call('HSET', schedule_keys[k], 'progress', progress)
  end
end
for lane, members in pairs(returning) do
  if #members > 0 then
    call('ZADD', lane_keys[lane], unpack(members))
  end
end
write_states()
push_all()
for _, one in ipairs(bad) do
  local due_ms = call('ZSCORE', one.plan.key, one.id)
  call('ZREM', one.plan.key, one.id)
  park(quarantine_key, one.id, one.plan.lane, due_ms or '-', nil, one.why)
end
return reply
