-- advance: fire planned occurrences of recurring schedules and set their next ones.
--
-- KEYS   lease meta log @lanes quarantine rq_queues rq_limits chains deadlines
-- ARGV   @prefixes
--        @term
--        clock_from_ms clock_until_ms   as in fire
--        patience_ms                  a run that waits longer than this no longer counts for overlap
--        ...   a text per schedule, words by single spaces: id, word of lib/lanes, due ms, version, nominal ms or -
--              (none fires), when that is due, overlap policy, most runs that wait, next nominal ms or -, when that is
--              due, and what is recorded of those that passed: "<why>:<first ms>:<last ms>:<count>" by commas, or -
-- RETURNS  OK, now ms, then per schedule a word: fired deferred uncertain skipped overlap expired passed duplicate
--          changed quarantined
--          |  STALE  |  SERVER  |  HELD, now ms, hold ms  |  JUMPED, now ms
-- LOGS   advance: rows = id, "<word> <nominal[+<jitter>]|-> <next nominal|-> <next due|-> <passed|->", why or nothing
--        end: rows, of runs that later ones took the place of before they began
--
-- A schedule whose version or due time is not what was planned is left alone (changed): the score alone
-- would let a plan of the old rule through when only the rule changed. An exhausted one is marked ended. A
-- schedule is left alone, too, if a key of a wrong type stands where it should go.
clock_from_ms, clock_until_ms, patience_ms = tonumber(clock_from_ms), tonumber(clock_until_ms), tonumber(patience_ms)
-- include lib/hold.lua
-- include lib/lanes.lua
-- include lib/overlap.lua
-- include lib/pushed.lua

local IS_PUSHED = {fired = true, uncertain = true, deferred = true}
local PLANNED = '^' .. string.rep('([^ ]+) ', 10) .. '([^ ]+)$'  -- [^ ] takes half as long as %S

-- What becomes of an occurrence whose run is new: the word, why, and the deadline of its run.
local function decide(one, run_due_ms, template, schedule)
  local flags, expires_ms = schedule[3] or '', whole_of(template[2])
  local deadline_ms = expires_ms and run_due_ms + expires_ms
  if deadline_ms and deadline_ms <= now_ms then
    return 'expired'
  end
  local is_doubtful = run_due_ms <= doubt_ms
  if is_doubtful and string.find(flags, 's', 1, true) then
    return 'skipped'
  end
  local wrong_key
  if flags ~= '' and string.find(flags, 'l', 1, true) then
    one.rate_limit, wrong_key = limit_of(unpack(redis.call('HMGET', template_prefix .. one.id, 'rate_limit_key',
      'rate_limit_concurrency')))
  end
  if wrong_key then
    return 'quarantined', 'wrong type at ' .. wrong_key
  end
  local verdict, why = overlapping(one, schedule[2])
  if verdict == 'overlap' then
    return 'overlap', why
  elseif verdict == 'broken' then
    return 'quarantined', why
  end
  return is_doubtful and 'uncertain' or verdict == 'free' and 'fired' or 'deferred', why, deadline_ms
end

local reply, moves, rows, bad = {'OK', now_ms}, {}, {}, {}
for i = ROWS, #ARGV do
  local id, word, due_ms, planned_version, nominal_ms, run_due_ms, mode, limit, next_nominal_ms, next_due_ms, passed =
    string.match(ARGV[i], PLANNED)
  local one = {id = id, lane = lane_of(word), key = key_of(word), due_ms = due_ms, mode = mode,
    limit = tonumber(limit), next_nominal_ms = next_nominal_ms, next_due_ms = next_due_ms,
    run = id .. '-' .. nominal_ms .. run_suffix}
  local schedule = redis.pcall('HMGET', schedule_prefix .. id, 'version', 'last', 'flags')
  local template = redis.pcall('HMGET', template_prefix .. id, 'origin', 'zs_expires')
  local queue, score = template[1], redis.call('ZSCORE', one.key, id)
  if score ~= due_ms or schedule[1] ~= planned_version then
    one.word = 'changed'
  elseif word ~= one.lane and not is_a(lane_keys[one.lane], 'zset') then
    one.word = 'changed'
  elseif type(queue) ~= 'string' then
    one.word, one.why = 'quarantined', 'its template is gone or of the wrong type'
  elseif not queue_accepts(queue) then
    one.word, one.why = 'quarantined', 'wrong type at ' .. RQ_QUEUE .. name_of(queue)
  elseif nominal_ms == '-' then
    one.word = 'passed'
  elseif not make_way(one.run) then
    one.word = 'duplicate'
  else
    one.queue, one.at_front = queue, schedule[3] and string.find(schedule[3], 'f', 1, true)
    one.word, one.why, one.deadline_ms = decide(one, tonumber(run_due_ms), template, schedule)
    one.is_uncertain = one.word == 'uncertain'
  end
  if one.word == 'quarantined' and not is_a(quarantine_key, 'hash') then
    one.word = 'changed'
  end
  reply[#reply + 1] = one.word
  if one.word == 'quarantined' then
    bad[#bad + 1] = one
  elseif one.word ~= 'changed' then
    moves[#moves + 1] = one
  end
  if one.word ~= 'changed' then
    local jitter_ms = run_due_ms ~= nominal_ms and tonumber(run_due_ms) - tonumber(nominal_ms)
    local nominal = nominal_ms .. (jitter_ms and string.format('+%.0f', jitter_ms) or '')
    local words = one.word .. ' ' .. nominal .. ' ' .. next_nominal_ms .. ' ' .. next_due_ms .. ' ' .. passed
    add_row(rows, id, words, one.why)
  end
end
if #rows == 0 then
  return reply
end

append_rows('advance', rows)

local function start(one)
  join(one)
  one.template = template_prefix .. one.id
  launch(one.run, one.queue, one)
  if one.before then
    defer(one)
  end
end

local returning = {high = {}, normal = {}, low = {}}
for _, one in ipairs(moves) do
  local schedule_key = schedule_prefix .. one.id
  local is_pushed = IS_PUSHED[one.word]
  if is_pushed then
    start(one)
  end
  if one.next_due_ms == '-' then
    redis.call('ZREM', one.key, one.id)
    redis.call('HDEL', schedule_key, 'nominal')
    redis.call('HSET', schedule_key, 'ended_at', string.format('%.0f', now_ms))
    if is_pushed then
      redis.call('HSET', schedule_key, 'last', one.run)
    end
  else
    local lane = returning[one.lane]
    if one.key ~= lane_keys[one.lane] then
      redis.call('ZREM', one.key, one.id)
    end
    lane[#lane + 1] = one.next_due_ms
    lane[#lane + 1] = one.id
    if is_pushed then
      redis.call('HSET', schedule_key, 'nominal', one.next_nominal_ms, 'last', one.run)
    else
      redis.call('HSET', schedule_key, 'nominal', one.next_nominal_ms)
    end
  end
end
for lane, members in pairs(returning) do
  if #members > 0 then
    redis.call('ZADD', lane_keys[lane], unpack(members))
  end
end
push_all()
for _, one in ipairs(bad) do
  redis.call('ZREM', one.key, one.id)
  park(quarantine_key, one.id, one.lane, one.due_ms, nil, one.why)
end
append_rows('end', ends)
return reply
