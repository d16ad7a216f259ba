-- chain: the runs of a schedule that others wait for, or replace; and the list of the runs that wait.
--
-- USES   chains_key waiting_prefix
-- GIVES  pushed_runs(id, last, text)  its pushed runs that may be open, oldest first; *text*: its chain, if known
--        waiting_runs(id)  ids of the runs that wait, oldest first; none if their key is of a wrong type
--        open_jobs(id, runs)  the open ones among *runs*, in the form of job_of
--        waits_still(run)  false if it expired, or another program cancelled or deleted it
--        follow(id, mode, jobs, run, seen)  writes the pushed runs, unless the text is *seen*: *jobs*, in the form of
--          job_of, then *run*, if given
--
-- The pushed runs are a text "<policy> <run> <run> …" in `chains`; runs that wait are in a list of their own. While
-- that list has a run, `chains` has the schedule: unblock.lua finds it there. lib/overlap.lua has the rules of each
-- policy. A run whose worker seems dead stays in its chain until its end is recorded.
-- include lib/status.lua
function waits_still(run)
  return redis.pcall('HGET', RQ_JOB .. run, 'status') == 'deferred'
end

-- The last run may be missing in the chain: run_now pushed it, or another policy applied then. It may also wait, or
-- nobody may ever end it (restore_runs.lua).
function pushed_runs(id, last, text)
  local job = last and redis.pcall('HMGET', RQ_JOB .. last, 'status', 'zs_over') or {}
  local runs, is_missing = {}, last and job[1] ~= 'deferred' and not job[2]
  for run in string.gmatch(string.match(text or redis.call('HGET', chains_key, id) or '', '%s.*') or '', '%S+') do
    runs[#runs + 1], is_missing = run, is_missing and run ~= last
  end
  runs[#runs + 1] = is_missing and last or nil
  return runs
end

function waiting_runs(id)
  return is_a(waiting_prefix .. id, 'list') and redis.call('LRANGE', waiting_prefix .. id, 0, -1) or {}
end

function open_jobs(id, runs)
  local open = {}
  for _, run in ipairs(runs) do
    local job = job_of(run)
    job.id, open[#open + 1] = id, is_open(job.status) and job or nil
  end
  return open
end

function follow(id, mode, jobs, run, seen)
  local words = {mode}
  for _, job in ipairs(jobs) do
    words[#words + 1] = job.run
  end
  words[#words + 1] = run
  local text = table.concat(words, ' ')
  if text ~= seen then
    redis.call('HSET', chains_key, id, text)
  end
end
