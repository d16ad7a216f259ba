-- look: read RQ's job hashes of runs. Writes nothing.
--
-- KEYS   meta log deadlines
-- ARGV   fields   of RQ's hash, by spaces. exc_string comes from the newest result of a failed run; behind a blank
--                 are its zs_attempts, if it has them. zs_func is that of a failed run; without one, its description.
--                 rate_limit_key of a run that waits for a slot is returned as "<key> (<number of slots>)"
--        ...      run ids
-- RETURNS  OK, then per run: - if RQ has no job of it (or its key is of another type), else the fields, joined by \0;
--          each is cleaned but the last, which may have any text
-- LOGS   nothing
--
-- A job is gone if the run had not begun by its deadline. Then the status is `expired`, ended_at is the deadline, and
-- last_heartbeat is now: RQ may have forgotten the job meanwhile. If a worker has such a run in hand the status is
-- `started`: RQ removes the deadline a moment after a worker took the run, and writes the hash again when the run ends.
-- The reply has a text per run, not a list: Redis before 7 sends a list of lists in pieces, and the reader wakes for
-- each. RQ keeps a traceback packed in the stream rq:results:<id>. Lua cannot unpack it, and does not have to.
-- include lib/hash.lua
-- include lib/iso.lua
-- include lib/meta.lua
-- include lib/wording.lua

local MOST = 262144  -- bytes of a packed traceback; a longer one is left out
local LONGEST_NOTE = 4097  -- bytes, one more than a note may have (core/runs/run.py)
-- Bytes (core/runs/attempts.py). A longer text is left out, or one with control characters.
local LONGEST_ATTEMPTS = 4000

local function newest_error(run)
  local results = redis.pcall('XREVRANGE', RQ_RESULTS .. run, '+', '-', 'COUNT', 1)
  local texts = not results.err and results[1] and results[1][2] or {}
  for i = 1, #texts, 2 do
    if texts[i] == 'exc_string' and #texts[i + 1] <= MOST then
      return texts[i + 1]
    end
  end
  return ''
end

-- Return the fields that are known of a run without a hash, or nil.
local function of_gone(run)
  local deadline_ms = tonumber(redis.call('ZSCORE', deadlines_key, run) or '')
  if redis.call('EXISTS', RQ_EXECUTIONS .. run) == 1 then
    return {status = 'started'}
  elseif deadline_ms and deadline_ms <= now_ms then
    return {status = 'expired', ended_at = iso(deadline_ms), last_heartbeat = iso(now_ms)}
  end
end

local function limit_of(run, key)
  local most = whole_of(redis.call('HGET', RQ_JOB .. run, 'rate_limit_concurrency'))
  return name_of(key) .. (most and string.format(' (%.0f)', most) or '')
end

local function note_of(value)
  return string.sub(value, 1, LONGEST_NOTE)
end

local function attempts_of(value)
  return #value <= LONGEST_ATTEMPTS and not string.find(value, '%c') and ' ' .. value or ''
end

local cleaners = {status = word_of, last_heartbeat = time_of, exc_string = attempts_of, zs_note = note_of}
local names, asked, cleaner, at, reply = {}, {}, {}, {}, {'OK'}  -- at: the place of a name
for name in string.gmatch(fields, '%S+') do
  local n = #names + 1
  asked[n] = name == 'exc_string' and 'zs_attempts' or name  -- one column for both: most runs have neither
  names[n], cleaner[n], at[name] = name, cleaners[name] or string.find(name, '_at$') and time_of or line_of, n
end
for i = ROWS, #ARGV do
  local run = ARGV[i]
  local values = read_hash(RQ_JOB .. run, unpack(asked))
  if not values.err and not values[at.status] then
    local gone = of_gone(run) or {}
    for n, name in ipairs(names) do
      values[n] = gone[name] or false
    end
  end
  local status = not values.err and values[at.status]
  if not status then
    reply[i] = '-'
  else
    for n = 1, #names do
      local value = values[n]
      values[n] = value and cleaner[n](value) or ''
    end
    if at.exc_string and status == 'failed' then
      values[at.exc_string] = newest_error(run) .. values[at.exc_string]
    end
    if at.zs_func and status ~= 'failed' then
      values[at.zs_func] = ''
    elseif at.zs_func and values[at.zs_func] == '' then
      values[at.zs_func] = line_of(redis.call('HGET', RQ_JOB .. run, 'description') or '')
    end
    if at.rate_limit_key and values[at.rate_limit_key] ~= '' then
      values[at.rate_limit_key] = status == 'rate_limited' and limit_of(run, values[at.rate_limit_key]) or ''
    end
    reply[i] = table.concat(values, '\0')
  end
end
return reply
