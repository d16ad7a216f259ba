-- retry: repeat a finished run, as an extra run of the same occurrence.
--
-- KEYS   @schedules wake schedule rq_queues rq_limits op deadlines
-- ARGV   @prefixes
--        by              who asks, for the log; or ''
--        id              of its schedule
--        run             the run that is over
--        nominal_ms      the time in its id
--        keep_op_ms      op holds the reply that long, and a call sent again gets it
--        ...             field/value texts of its job, used if RQ has forgotten it; empty: not known
-- RETURNS  OK, word, now ms, detail
--        words: retried (detail: the new run's id), NOTOVER (RQ's status), WAITS (its schedule has not fired), GONE
--        (RQ has forgotten it, and no texts were given), BROKEN (another writer changed it), WRONGTYPE
-- LOGS   enqueue: run, front, fields n, the pairs, of = the run that is retried
--
-- The new run's number is the number of its entry in the log. So no id comes twice in a history, whatever RQ forgot.
-- The schedule with this id stays as it is, and so does the last run of a recurring one. Fields that RQ or a task wrote
-- into the job while it ran are left out, except meta: its first value is not known. The new run has as many retries as
-- at first, and its deadline counts from now. All of it goes into the log, so a job with longer or more fields than a
-- client makes is BROKEN. A payload may have any length.
keep_op_ms = tonumber(keep_op_ms)
-- include lib/op.lua
-- include lib/place.lua
-- include lib/launch.lua
-- include lib/status.lua

local OVER = {finished = true, failed = true, stopped = true, canceled = true}
local KEPT = {
  data = true, origin = true, description = true, meta = true, retry_intervals = true,
  enqueue_at_front_on_retry = true, success_callback_name = true, failure_callback_name = true,
  stopped_callback_name = true, rate_limit_key = true,
}
local NUMBERS = {  -- a worker dies of a field that is no number
  timeout = true, result_ttl = true, failure_ttl = true, retries_left = true, success_callback_timeout = true,
  failure_callback_timeout = true, stopped_callback_timeout = true, rate_limit_concurrency = true,
}
local MOST = 200  -- texts of its fields
local LONGEST = 100000  -- bytes of a field that is neither payload nor meta; tags may take 40,000
local OF_RUN = {  -- fields of ours that are no part of the definition
  zs_uncertain = true, zs_note = true, zs_next = true, zs_gone = true, zs_deadline = true, zs_stop = true,
  zs_told = true,
}

local texts = redis.pcall('HGETALL', RQ_JOB .. run)
if texts.err then
  return string.find(texts.err, 'WRONGTYPE', 1, true) and answer({'OK', 'BROKEN', now_ms, '-'}) or texts
end
local function by_name()
  local found = {}
  for i = 1, #texts, 2 do
    found[texts[i]] = texts[i + 1]
  end
  return found
end
local job = by_name()
local is_forgotten = #texts == 0 or job.zs_gone and not job.data  -- see lib/waiting.lua
if is_forgotten then
  texts = {unpack(ARGV, ROWS)}
  job = by_name()
end
if #texts == 0 then
  return answer({'OK', 'GONE', now_ms, '-'})
end
if not is_forgotten and not OVER[job.status] then
  local at = job.status == 'scheduled' and find({id})[1]
  if at and not at.recurring and run_key(id, at.due_ms) == RQ_JOB .. run then
    return answer({'OK', 'WAITS', now_ms, '-'})
  end
  return answer({'OK', is_under_way(job.status) and 'NOTOVER' or 'BROKEN', now_ms, word_of(job.status) or '-'})
end

local flags = job.zs
if not flags then
  local own = redis.pcall('HGET', schedule_key, 'flags')
  flags = type(own) == 'string' and own ~= '' and '1' .. own or nil
end
if job.zs_retries and string.match(job.zs_retries, '^%d+$') then
  job.retries_left = job.zs_retries
end
local its_texts = flags and {'zs', flags} or {}
for i = 1, #texts, 2 do
  local name = texts[i]
  local value = job[name]
  if NUMBERS[name] and value ~= '' and not string.match(value, '^%-?%d+$') then
    return answer({'OK', 'BROKEN', now_ms, '-'})
  end
  local is_ours = string.sub(name, 1, 3) == 'zs_' and not OF_RUN[name]
  if value ~= '' and (KEPT[name] or NUMBERS[name] or is_ours) then
    if #value > LONGEST and name ~= 'data' and name ~= 'meta' or #its_texts > MOST then
      return answer({'OK', 'BROKEN', now_ms, '-'})
    end
    its_texts[#its_texts + 1] = name
    its_texts[#its_texts + 1] = value
  end
end
if not job.data or job.data == '' or not job.origin or job.origin == '' then
  return answer({'OK', 'BROKEN', now_ms, '-'})
end
local rate_limit = limit_of(job.rate_limit_key, job.rate_limit_concurrency)
if rate_limit == false or not queue_accepts(job.origin) then
  return answer({'OK', 'WRONGTYPE', now_ms, '-'})
end

local again = free_run(id, tonumber(nominal_ms), seq + 1)
local is_front = flags and string.find(flags, 'f', 1, true)
local fields = {'run', again, 'front', is_front and '1' or '0', 'fields', #its_texts / 2}
for i = 1, #its_texts do
  fields[#fields + 1] = its_texts[i]
end
fields[#fields + 1] = 'of'
fields[#fields + 1] = run
append('enqueue', fields)
local expires_ms = whole_of(job.zs_expires)
launch(again, job.origin, {fields = its_texts, at_front = is_front, rate_limit = rate_limit,
  deadline_ms = expires_ms and now_ms + expires_ms})
push_all()
return answer({'OK', 'retried', now_ms, again})
