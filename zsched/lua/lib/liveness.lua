-- liveness: decide whether the worker of a run is dead. Only this file decides that.
--
-- USES   now_ms
-- GIVES  executions_of(run)  list of '<run>:<execution>', as in rq:wip
--        is_alive(executions)  a worker has one of them in hand
--        is_dead(job)  its worker is dead; a job is in the form of job_of
--        is_in_the_way(job)  it is open, and its worker is alive or its run comes back into its queue
--
-- RQ's worker renews the key of its execution every 30 s, for 60 to 90 s ahead. The key lapses by this server's clock:
-- 60 to 90 s after the worker was killed. RQ's SimpleWorker sets it once, for as long as its job may take and a minute
-- more. A worker that is paused or without a connection for less than a minute is alive by this rule.
-- The heartbeat is by the worker's clock. It must be older than the shortest life of a key: after a loss of Redis'
-- memory, a worker writes its keys again within 30 s (RQ 2; RQ 3 renews only the heartbeat).
-- docs/explanation/policies.md has the delay.
-- include lib/iso.lua
-- include lib/status.lua
local SILENT_MS = 62000  -- a minute, and 2 s for a late heartbeat
local silent_before

function executions_of(run)
  local key, found = RQ_EXECUTIONS .. run, {}
  for n, execution in ipairs(is_a(key, 'zset') and redis.call('ZRANGE', key, 0, -1) or {}) do
    found[n] = run .. ':' .. execution
  end
  return found
end

function is_alive(executions)
  for _, execution in ipairs(executions) do
    if redis.call('EXISTS', RQ_EXECUTION .. execution) == 1 then
      return true
    end
  end
  return false
end

function is_dead(job)
  silent_before = silent_before or iso(now_ms - SILENT_MS)
  return job.status == 'started' and job.heartbeat ~= '' and job.heartbeat < silent_before
    and not is_alive(executions_of(job.run))
end

-- With on_lost=retry and a retry left, lost.lua puts the run back into its queue: it keeps its place in its chain.
function is_in_the_way(job)
  local comes_back = job.on_lost ~= 'fail' and (whole_of(job.retries_left) or 0) > 0
  return is_open(job.status) and (comes_back or not is_dead(job))
end
