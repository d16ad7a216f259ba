-- look: what RQ's job hashes say of runs. Writes nothing.
--
-- KEYS   meta log deadlines
-- ARGV   ...   run ids
-- RETURNS  OK, then per run: - when RQ holds nothing of it (or its key is of another type), else joined by \0:
--          status, enqueued_at, started_at, ended_at, last_heartbeat, worker_name, origin, retries_left, zs_retries,
--          number_of_retries, zs_on_lost, timeout, of one that failed its newest result's exc_string, and zs_note
-- LOGS   nothing
--
-- Of a job that is gone since it had not begun by its deadline the status is `expired`, ended_at that deadline and
-- last_heartbeat when it was looked for: RQ may have forgotten it meanwhile. Where a worker has it in hand it is
-- `started`: RQ lets go of its deadline a moment after it took it, and writes its hash again when it ends.
-- A text per run and not a list: Redis before 7 sends a list of lists in pieces, and the reader wakes for each.
-- RQ keeps a traceback in the stream rq:results:<id>, packed; Lua cannot open it, and does not have to.
local meta_key, log_key, deadlines_key = unpack(KEYS)
-- include lib/meta.lua
-- include lib/iso.lua
-- include lib/clean.lua

local MOST = 262144  -- bytes of a packed traceback; a longer one is left out
local LONGEST_NOTE = 4097  -- bytes, one more than a note may have (core/runs.py)

local function newest_error(run)
  local results = redis.pcall('XREVRANGE', 'rq:results:' .. run, '+', '-', 'COUNT', 1)
  local texts = not results.err and results[1] and results[1][2] or {}
  for i = 1, #texts, 2 do
    if texts[i] == 'exc_string' and #texts[i + 1] <= MOST then
      return texts[i + 1]
    end
  end
  return ''
end

local function of_gone(run)
  local deadline_ms = is_a(deadlines_key, 'zset') and tonumber(redis.call('ZSCORE', deadlines_key, run) or '')
  if redis.call('EXISTS', 'rq:executions:' .. run) == 1 then
    return {'started'}
  elseif deadline_ms and deadline_ms <= now_ms then
    return {'expired', '', '', iso(deadline_ms), iso(now_ms)}
  end
end

local reply = {'OK'}
for i = 1, #ARGV do
  local run = ARGV[i]
  local job = redis.pcall('HMGET', 'rq:job:' .. run, 'status', 'enqueued_at', 'started_at', 'ended_at',
    'last_heartbeat', 'worker_name', 'origin', 'retries_left', 'zs_retries', 'number_of_retries', 'zs_on_lost',
    'timeout', 'zs_note')
  if job.err and not string.find(job.err, 'WRONGTYPE', 1, true) then
    return job  -- not allowed to look, say: that tells nothing of the job
  end
  if not job[1] and not job.err then
    job = of_gone(run) or job
  end
  if not job[1] then
    reply[i + 1] = '-'
  else
    local is_failed, note = job[1] == 'failed', string.sub(job[13] or '', 1, LONGEST_NOTE)
    job[1] = word_of(job[1])
    for n = 2, 5 do
      job[n] = time_of(job[n]) or ''
    end
    for n = 6, 12 do
      job[n] = line_of(job[n]) or ''
    end
    job[13], job[14] = is_failed and newest_error(run) or '', note
    reply[i + 1] = table.concat(job, '\0')
  end
end
return reply
