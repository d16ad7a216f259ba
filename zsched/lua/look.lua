-- look: what RQ's job hashes say of runs. Writes nothing.
--
-- KEYS   meta log deadlines
-- ARGV   fields   of RQ's hash, by spaces; exc_string is that of the newest result of a run that failed, and
--                 rate_limit_key of a run that waits for a slot the key and the slots: "<key> (<number>)"
--        ...      run ids
-- RETURNS  OK, then per run: - when RQ holds nothing of it (or its key is of another type), else the fields, joined by
--          \0; each is cleaned but the last, which may have any text
-- LOGS   nothing
--
-- Of a job that is gone since it had not begun by its deadline the status is `expired`, ended_at that deadline and
-- last_heartbeat when it was looked for: RQ may have forgotten it meanwhile. Where a worker has it in hand it is
-- `started`: RQ lets go of its deadline a moment after it took it, and writes its hash again when it ends.
-- A text per run and not a list: Redis before 7 sends a list of lists in pieces, and the reader wakes for each.
-- RQ keeps a traceback in the stream rq:results:<id>, packed; Lua cannot open it, and does not have to.
-- include lib/rq.lua
-- include lib/meta.lua

local MOST = 262144  -- bytes of a packed traceback; a longer one is left out
local LONGEST_NOTE = 4097  -- bytes, one more than a note may have (core/runs.py)

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

-- What is told of a run without a hash; nil: nothing.
local function of_gone(run)
  local deadline_ms = is_a(deadlines_key, 'zset') and tonumber(redis.call('ZSCORE', deadlines_key, run) or '')
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

local function cleaned_as(name, value)
  if name == 'zs_note' then
    return string.sub(value, 1, LONGEST_NOTE)
  elseif name == 'status' then
    return word_of(value)
  elseif name == 'last_heartbeat' or string.find(name, '_at$') then
    return time_of(value)
  end
  return line_of(value)
end

local names, reply = {}, {'OK'}
for name in string.gmatch(fields, '%S+') do
  names[#names + 1] = name
end
for i = ROWS, #ARGV do
  local run = ARGV[i]
  local told = redis.pcall('HMGET', RQ_JOB .. run, unpack(names))
  if told.err and not string.find(told.err, 'WRONGTYPE', 1, true) then
    return told  -- not allowed to look, say: that tells nothing of the job
  end
  local job = {}
  for n, name in ipairs(names) do
    job[name] = not told.err and told[n] or nil
  end
  if not job.status and not told.err then
    job = of_gone(run) or job
  end
  if not job.status then
    reply[i] = '-'
  else
    local texts = {}
    for n, name in ipairs(names) do
      if name == 'exc_string' then
        texts[n] = job.status == 'failed' and newest_error(run) or ''
      elseif name == 'rate_limit_key' then
        texts[n] = job.status == 'rate_limited' and job[name] and limit_of(run, job[name]) or ''
      else
        texts[n] = job[name] and cleaned_as(name, job[name]) or ''
      end
    end
    reply[i] = table.concat(texts, '\0')
  end
end
return reply
