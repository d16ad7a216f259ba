-- advance: fire planned occurrences of recurring schedules and set their next ones.
--
-- KEYS   lease meta log due_high due_normal due_low quarantine rq_queues
-- ARGV   schedule_prefix template_prefix run_suffix   as in keys.py
--        token expected_server        this term's
--        lease_ms clock_from_ms clock_until_ms   as in fire
--        patience_ms                  a run that waits longer than this no longer counts for overlap
--        ...   a text per schedule, words by single spaces: id, lane, due ms, version, nominal ms, next nominal
--              ms or -, next due ms or -, first and last coalesced ms or -, their count
-- RETURNS  OK, now ms, then per schedule a word: fired uncertain skipped overlap duplicate changed quarantined
--          |  STALE  |  SERVER  |  HELD, now ms, hold ms  |  JUMPED, now ms
-- LOGS   advance: rows = lines "<id> <word> <nominal> <next nominal|-> <next due|-> <first> <last> <count> <why|->"
--
-- A schedule whose version or due time is not what was planned is left alone (changed): the score alone
-- would let a plan of the old rule through when only the rule changed. An exhausted one is marked ended.
local lease_key, meta_key, log_key, due_high_key, due_normal_key, due_low_key, quarantine_key,
  rq_queues_key = unpack(KEYS)
local schedule_prefix, template_prefix, run_suffix, token, expected_server, lease_ms, clock_from_ms,
  clock_until_ms, patience_ms = unpack(ARGV, 1, 9)
lease_ms, clock_from_ms, clock_until_ms, patience_ms = tonumber(lease_ms), tonumber(clock_from_ms),
  tonumber(clock_until_ms), tonumber(patience_ms)
-- include lib/meta.lua
-- include lib/fence.lua
-- include lib/hold.lua
-- include lib/iso.lua
-- include lib/queues.lua

local HEARTBEAT_MS = 120000  -- RQ workers beat at least every 90 s; a killed one leaves `started` for ever
local lane_keys = {high = due_high_key, normal = due_normal_key, low = due_low_key}
local dead_before, forgotten_before = iso(now_ms - HEARTBEAT_MS), iso(now_ms - patience_ms)
local pending = {queued = true, started = true, deferred = true, scheduled = true}

-- Is the previous run still waiting or running? Second value: why it no longer counts, when that is a judgement.
local function is_open(run)
  local job = redis.pcall('HMGET', 'rq:job:' .. run, 'status', 'last_heartbeat', 'enqueued_at')
  local status = job[1]
  if not status or not pending[status] then
    return false
  end
  if status == 'started' and job[2] and job[2] ~= '' and job[2] < dead_before then
    return false, 'previous_worker_silent'
  end
  if status ~= 'started' and job[3] and job[3] < forgotten_before then
    return false, 'previous_waits_too_long'
  end
  return true
end

local reply, moves, rows, bad = {'OK', now_ms}, {}, {}, {}
for i = 10, #ARGV do
  local id, lane, due_ms, planned_version, nominal_ms, rest = string.match(ARGV[i], '^(%S+) (%S+) (%S+) (%S+) (%S+) (.+)$')
  local run, why = id .. '-' .. nominal_ms .. run_suffix, nil
  local schedule = redis.pcall('HMGET', schedule_prefix .. id, 'version', 'last', 'flags')
  local queue = redis.pcall('HGET', template_prefix .. id, 'origin')
  local score = redis.call('ZSCORE', lane_keys[lane], id)
  local word
  if score ~= due_ms or schedule[1] ~= planned_version then
    word = 'changed'
  elseif type(queue) ~= 'string' then
    word, why = 'quarantined', 'its template is gone or of the wrong type'
  elseif not queue_accepts(queue) then
    word, why = 'quarantined', 'wrong type at rq:queue:' .. queue
  elseif redis.call('EXISTS', 'rq:job:' .. run) == 1 then
    word = 'duplicate'
  else
    local flags, last = schedule[3] or '', schedule[2]
    local open = false
    if last then
      open, why = is_open(last)
    end
    if open then
      word, why = 'overlap', last
    elseif tonumber(nominal_ms) > doubt_ms then
      word = 'fired'
    elseif string.find(flags, 's', 1, true) then
      word = 'skipped'
    else
      word = 'uncertain'
    end
    if word == 'fired' or word == 'uncertain' then
      push(queue, run, flags ~= '' and string.find(flags, 'f', 1, true))
    end
  end
  reply[#reply + 1] = word
  if word == 'quarantined' then
    bad[#bad + 1] = {id = id, lane = lane, due_ms = due_ms, why = why}
  elseif word ~= 'changed' then
    local next_nominal_ms, next_due_ms = string.match(rest, '^(%S+) (%S+)')
    moves[#moves + 1] = {id = id, lane = lane, word = word, run = run, next_nominal_ms = next_nominal_ms,
      next_due_ms = next_due_ms}
  end
  if word ~= 'changed' then
    rows[#rows + 1] = id .. ' ' .. word .. ' ' .. nominal_ms .. ' ' .. rest .. ' ' .. (why or '-')
  end
end
if #rows == 0 then
  return reply
end

append('advance', {'rows', table.concat(rows, '\n')})
local now_iso, now_text = iso(now_ms), string.format('%.0f', now_ms)
local returning = {high = {}, normal = {}, low = {}}
for _, move in ipairs(moves) do
  local schedule_key = schedule_prefix .. move.id
  local is_pushed = move.word == 'fired' or move.word == 'uncertain'
  if is_pushed then
    local job_key = 'rq:job:' .. move.run
    redis.call('COPY', template_prefix .. move.id, job_key)
    redis.call('HSET', job_key, 'created_at', now_iso, 'enqueued_at', now_iso)
    if move.word == 'uncertain' then
      redis.call('HSET', job_key, 'zs_uncertain', '1')
    end
  end
  if move.next_due_ms == '-' then
    redis.call('ZREM', lane_keys[move.lane], move.id)
    redis.call('HDEL', schedule_key, 'nominal')
    redis.call('HSET', schedule_key, 'ended_at', now_text)
    if is_pushed then
      redis.call('HSET', schedule_key, 'last', move.run)
    end
  else
    local lane = returning[move.lane]
    lane[#lane + 1] = move.next_due_ms
    lane[#lane + 1] = move.id
    if is_pushed then
      redis.call('HSET', schedule_key, 'nominal', move.next_nominal_ms, 'last', move.run)
    else
      redis.call('HSET', schedule_key, 'nominal', move.next_nominal_ms)
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
  redis.call('ZREM', lane_keys[one.lane], one.id)
  redis.call('HSET', quarantine_key, one.id, table.concat({one.lane, one.due_ms, now_text, one.why}, ' '))
end
return reply
