-- retry: repeat finished runs, each as an extra run of the same occurrence.
--
-- KEYS   @schedules rq_queues rq_limits op deadlines
-- ARGV   run_suffix      as in keys.py
--        by              who asks, for the log; or ''
--        retried_prefix  as in keys.py
--        is_once         1: not a run that was retried in the last keep_retried_ms, or has succeeded
--        keep_retried_ms
--        ...             per run: id of its schedule; run, each once; nominal_ms, the time in its id; a signature for
--                        the new run instead of the old one's, or ''; number of texts; and field/value texts of its
--                        job, used if RQ has forgotten it; none: not known
-- RETURNS  OK, now ms, then per run: word, detail
--        words: retried (detail: the new run's id), RETRIED (is_once; detail: that run's id), SUCCEEDED (is_once),
--        NOTOVER (RQ's status), WAITS (its schedule has not fired), GONE (RQ has forgotten it, and no texts were
--        given), BROKEN (another writer changed it), WRONGTYPE, LATER (too much for this call: call again; the first
--        run never gets it)
-- LOGS   enqueue: rows = run, "<front> <fields n> <of>", the pairs; of = the run that is retried
--
-- The new run's number is the number of its entry in the log. So no id comes twice in a history, whatever RQ forgot;
-- two runs of one occurrence need two entries. The schedule with this id stays as it is, and so does the last run of a
-- recurring one. Fields that RQ or a task wrote into the job while it ran are left out, except meta: its first value is
-- not known. The new run has as many retries as at first, and its deadline counts from now. All of it goes into the
-- log, so a job with longer or more fields than a client makes is BROKEN. A payload may have any length.
-- include lib/now.lua
-- include lib/status.lua
-- include lib/texts.lua

local OVER = {finished = true, failed = true, stopped = true, canceled = true}
local NUMBER = '^%-?%d+$'  -- a worker dies of such a field that is no number
local FORMS = {  -- patterns of the fields of RQ that the new run has, too
  data = '', origin = '', description = '', meta = '', retry_intervals = '', enqueue_at_front_on_retry = '', zs = '',
  success_callback_name = '', failure_callback_name = '', stopped_callback_name = '', rate_limit_key = '',
  timeout = NUMBER, result_ttl = NUMBER, failure_ttl = NUMBER, retries_left = NUMBER, rate_limit_concurrency = NUMBER,
  success_callback_timeout = NUMBER, failure_callback_timeout = NUMBER, stopped_callback_timeout = NUMBER,
}
local MOST = 200  -- texts of its fields
local LONGEST = 100000  -- bytes of a field that is neither payload nor meta; tags may take 40,000
local MOST_TEXTS = 4000  -- of all fields in the entry; unpack fails near 8,000
local MOST_BYTES = 1000000  -- of the runs of one call: a few ms
local OF_RUN = {  -- fields of ours that are no part of the definition
  zs_uncertain = true, zs_note = true, zs_next = true, zs_gone = true, zs_deadline = true, zs_stop = true,
  zs_told = true, zs_attempts = true, zs_version = true,
}
local orders, texts_size, bytes, is_full, taken = {}, 0, 0, false, {}

-- Return the texts of the new run's job, or nil if another writer broke the old one.
local function texts_of_new(job, texts, signature)
  local its_texts = {}
  if signature ~= '' then
    job.zs_sig = signature
  end
  if job.zs_retries and string.match(job.zs_retries, '^%d+$') then
    job.retries_left = job.zs_retries
  end
  for i = 1, #texts, 2 do
    local name = texts[i]
    local value = job[name]
    local form = FORMS[name] or string.sub(name, 1, 3) == 'zs_' and not OF_RUN[name] and ''
    if form and value ~= '' then
      local is_long = #value > LONGEST and name ~= 'data' and name ~= 'meta'
      if is_long or #its_texts > MOST or not string.find(value, form) then
        return nil
      end
      its_texts[#its_texts + 1], its_texts[#its_texts + 2] = name, value
    end
  end
  if job.data and job.data ~= '' and job.origin and job.origin ~= '' then
    return its_texts
  end
end

-- Return a word and its detail.
local function decide(id, run, nominal_ms, signature, given)
  local retried = is_once == '1' and redis.pcall('GET', retried_prefix .. run)
  if type(retried) == 'string' then
    return 'RETRIED', name_of(retried)
  elseif is_full then
    return 'LATER', '-'
  end
  local texts = redis.pcall('HGETALL', RQ_JOB .. run)
  if texts.err then
    read_hash(RQ_JOB .. run, 'status')  -- ends the script, if it is another error than WRONGTYPE
    return 'BROKEN', '-'
  end
  local job = by_name(texts)
  local is_forgotten = #texts == 0 or job.zs_gone and not job.data  -- see lib/waiting.lua
  if is_forgotten then
    texts, job = given, by_name(given)
  end
  if #texts == 0 then
    return 'GONE', '-'
  end
  if is_once == '1' and not is_forgotten and job.status == 'finished' then
    return 'SUCCEEDED', '-'
  end
  if not is_forgotten and not OVER[job.status] then
    local at = job.status == 'scheduled' and find({id})[1]
    if at and not at.recurring and run_key(id, at.due_ms) == RQ_JOB .. run then
      return 'WAITS', '-'
    end
    return is_under_way(job.status) and 'NOTOVER' or 'BROKEN', word_of(job.status) or '-'
  end

  local its_texts = texts_of_new(job, texts, signature)
  if not its_texts then
    return 'BROKEN', '-'
  end
  local again, size = free_run(id, tonumber(nominal_ms), seq + 1), #job.data + #(job.meta or '')
  local one = order(again, job, string.find(job.zs or '', 'f', 1, true))
  if not one then
    return 'WRONGTYPE', '-'
  end
  is_full = #orders > 0 and (texts_size + #its_texts > MOST_TEXTS or bytes + size > MOST_BYTES)
  if is_full or taken[id .. ' ' .. nominal_ms] then
    return 'LATER', '-'
  end
  taken[id .. ' ' .. nominal_ms], texts_size, bytes = true, texts_size + #its_texts, bytes + size
  one.fields, one.of = its_texts, run
  orders[#orders + 1] = one
  return 'retried', again
end

local reply, i = {'OK', now_ms}, ROWS
while i <= #ARGV do
  local id, run, nominal_ms, signature, size = unpack(ARGV, i, i + 4)
  i = i + 5 + tonumber(size)
  reply[#reply + 1], reply[#reply + 2] = decide(id, run, nominal_ms, signature,
    {unpack(ARGV, i - tonumber(size), i - 1)})
end
if #orders > 0 then
  append('enqueue', rows_of(orders))
end
push_now(orders)
for _, one in ipairs(orders) do
  redis.call('SET', retried_prefix .. one.of, one.run, 'PX', keep_retried_ms)
end
return answer(reply)
