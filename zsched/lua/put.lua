-- put: create or replace one-shots: each an RQ job in waiting at its final key, and a place in a lane.
--
-- KEYS   @schedules @trouble wake op
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        lane            high | normal | low
--        if_exists       replace | keep (one in quarantine is replaced) | error
--        enabled         1: not paused; 0: paused; '' as it is, and a new one not paused
--        allow_past      1: a due time that has passed fires at once
--        seen_version    put rows only if the schedule has this version; '' in any case
--        field_size      number of field/value texts that all rows share
--        ...             the shared texts, then per row: id, due, name, data. due: ms; +ms from TIME; or =ms, such a
--                        time that the caller computed: it may have passed. name: the signature of the data, or data
--                        (core/runs/job.py)
-- RETURNS  OK, now ms, <entry>/<version of written rows, or ->, then per row: word, due ms
--        words: created updated unchanged kept already_fired EXISTS PAST CHANGED:<present version> TAKEN WRONGTYPE; due
--        ms may be -
-- LOGS   put: lane, fields n, the shared pairs, rows n, per written row (id, due ms) and (name, data); then, if not
--        empty, ids by spaces: replaced (existed before), paused, and past (its time had passed, and it did not wait
--        for that time before: its lateness counts from this put)
--
-- A row that equals the waiting schedule is `unchanged`. If RQ already has the run of a row, it is `already_fired`, and
-- nothing waits. So a call that is sent again because its reply was lost does nothing. Each one-shot of zsched has `zs`
-- in its job. TAKEN: a job without `zs` has the run's key. A hash without `data` is no job: a worker wrote it back
-- after its job was lost, so that run was pushed. Without `enabled`, a put never resumes a paused schedule.
field_size = tonumber(field_size)
-- include lib/op.lua
-- include lib/version.lua
-- include lib/wake.lua
-- include lib/remove.lua
-- include lib/pushed.lua
-- include lib/texts.lua
-- include lib/holds.lua

local ROW_SIZE = 4  -- texts of a row
local first_row = ROWS + field_size

local expected  -- by field: the shared texts and the status, if a row has to be compared

-- Return whether a caller can name this version.
local function is_version(value)
  return #value <= 64 and string.find(value, '^[!-~]+$')
end

-- Return whether the hash at *run* is the waiting job that the row describes; its times may differ.
local function is_same(run, name, data)
  expected = expected or by_name(ARGV, ROWS, first_row - 1)
  expected.status = 'scheduled'
  return holds(run, expected, field_size / 2 + 1, {created_at = is_version, zs_version = is_version}, data, name)
end

-- Return the word of a row that writes nothing, or nil; and the due time to return, if it is not the row's. `at` is its
-- place or false, `job` the fields OF_RUN at its run's key or false.
local function word_of_present(id, at, due_ms, run, job, name, data)
  local pending = at and not at.recurring and at.place ~= 'quarantine'
  if job and job.err then
    return 'WRONGTYPE'
  elseif at and (if_exists == 'error' or if_exists == 'keep' and at.place ~= 'quarantine') then
    return if_exists == 'keep' and 'kept' or 'EXISTS', at.due_ms or '-'
  elseif seen_version ~= '' and version_of(id, at) ~= seen_version then
    return 'CHANGED:' .. version_of(id, at), '-'
  elseif job and is_pushed(job) then
    -- It was pushed, or RQ took it over; it may wait for a retry.
    local own = redis.call('HMGET', run, 'zs', 'data')
    return (own[1] or not own[2]) and 'already_fired' or 'TAKEN'
  elseif pending and at.lane == lane and at.due_ms == due_ms and (at.place == 'paused') == will_pause(enabled, at)
    and is_same(run, name, data) then
    return 'unchanged'
  end
end

local ids, due, keys, is_relative = {}, {}, {}, {}
for i = first_row, #ARGV, ROW_SIZE do
  local n, id, due_ms = #ids + 1, ARGV[i], ARGV[i + 1]
  local sign = string.sub(due_ms, 1, 1)
  if sign == '+' then
    due_ms = string.format('%.0f', now_ms + tonumber(due_ms))
  elseif sign == '=' then
    due_ms, is_relative[n] = string.sub(due_ms, 2), true
  end
  ids[n], due[n], keys[n] = id, due_ms, run_key(id, due_ms)
end
local found = find(ids)
local has_runs = redis.call('EXISTS', unpack(keys)) > 0  -- usually none: then no row asks for its own

-- Read and decide. Most rows are new, and have no run.
local reply = {'OK', now_ms, ''}
local writes, fields = {}, texts_at(ROWS, first_row, {'lane', lane, 'fields', field_size / 2})
local rows_at = #fields + 2
fields[rows_at - 1], fields[rows_at] = 'rows', 0
local replaced, pausing, past, taken = {}, {}, {}, {}

local function list(name, some)
  if #some > 0 then
    fields[#fields + 1] = name
    fields[#fields + 1] = table.concat(some, ' ')
  end
end

local members = {}
for n, id in ipairs(ids) do
  local at, due_ms, run, row = found[n], due[n], keys[n], first_row + ROW_SIZE * (n - 1)
  local name, data, word, shown_ms = ARGV[row + 2], ARGV[row + 3], nil, nil
  local job = has_runs and redis.call('EXISTS', run) == 1 and redis.pcall('HMGET', run, unpack(OF_RUN))
  if at or job or seen_version ~= '' then
    word, shown_ms = word_of_present(id, at, due_ms, run, job, name, data)
  end
  if not word and tonumber(due_ms) < now_ms and not (at and not at.recurring and at.due_ms == due_ms) then
    if allow_past ~= '1' and not is_relative[n] then
      word = 'PAST'
    else
      past[#past + 1] = id
    end
  end
  if not word then
    word = 'created'
    if at then
      word, replaced[#replaced + 1] = 'updated', id
    end
    taken[#taken + 1] = job and run or nil
    if will_pause(enabled, at) then
      pausing[#pausing + 1] = id
    else
      local last = #members
      members[last + 1], members[last + 2] = due_ms, id
    end
    writes[#writes + 1] = n
    local size = #fields
    fields[size + 1], fields[size + 2], fields[size + 3], fields[size + 4] = id, due_ms, name, data
  end
  local size = #reply
  reply[size + 1], reply[size + 2] = word, shown_ms or due_ms
end

if #writes == 0 then
  reply[3] = version() .. '/-'
  return answer(reply)
end

fields[rows_at] = #writes
list('replaced', replaced)
list('paused', pausing)
list('past', past)
local created_at = stamp(now_ms, seq + 1)
reply[3] = append('put', fields) .. '/' .. created_at

-- Fields for fire come first: Redis finds them soonest. The shared texts begin with them (storage/puts.py). Jobs
-- differ only in data and signature, so most are copies of the first one with as many texts.
local new_job, copied = texts_at(ROWS, first_row, {'HSET', '', 'status', 'scheduled'}), {}
local size = #new_job + 2
new_job[size - 1], new_job[size], new_job[size + 1], new_job[size + 3] = 'created_at', created_at, 'data', 'zs_sig'
if #taken > 0 then
  redis.call('DEL', unpack(taken))  -- a hash without a place would leave fields of its own
end
for _, n in ipairs(writes) do
  local id, at, due_ms = ids[n], found[n], due[n]
  if at then
    remove(id, at)
  end
  local row = first_row + ROW_SIZE * (n - 1)
  local last = ARGV[row + 2] ~= 'data' and size + 4 or size + 2
  new_job[2], new_job[size + 2], new_job[size + 4] = keys[n], ARGV[row + 3], ARGV[row + 2]
  if copied[last] then
    redis.call('COPY', copied[last], keys[n])
    redis.call('HSET', keys[n], unpack(new_job, size + 1, last))
  else
    redis.call(unpack(new_job, 1, last))
    copied[last] = keys[n]
  end
  if #pausing > 0 and will_pause(enabled, at) then
    local was = at and at.place == 'paused' and at or {}
    park(paused_key, id, lane, due_ms, was.since_ms, was.note)
  end
end
if #members > 0 then
  enter(lane, members)
end
return answer(reply)
