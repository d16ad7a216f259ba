-- status: the status of a run in RQ.
--
-- GIVES  is_open(status)
--        is_under_way(status)  true also for a job that RQ made and did not queue yet
--        job_of(run)  {run, status (nil: no job), queue, worker, told_ms, heartbeat, on_lost, retries_left, limit_key}
-- include lib/hash.lua
-- include lib/untrusted.lua
local IS_OPEN = {
  queued = true, started = true, deferred = true, scheduled = true, ready_to_enqueue = true, rate_limited = true,
}

function is_open(status)
  return IS_OPEN[status] or false
end

function is_under_way(status)
  return is_open(status) or status == 'created'
end

function job_of(run)
  local job = read_hash(RQ_JOB .. run, 'status', 'origin', 'worker_name', 'zs_stop', 'last_heartbeat',
    'zs_on_lost', 'retries_left', 'rate_limit_key')
  return {run = run, status = job[1], queue = job[2] or '', worker = job[3] or '', told_ms = tonumber(job[4] or ''),
    heartbeat = job[5] or '', on_lost = job[6], retries_left = job[7], limit_key = job[8]}
end
