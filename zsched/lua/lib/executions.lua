-- executions: whether a worker has a run in hand, by RQ's keys of its executions, which lapse by this server's clock
-- and not by a worker's.
--
-- GIVES  executions_of(run) -> list of '<run>:<execution>', as they stand in rq:wip
--        is_alive(executions)
-- include lib/rq.lua
-- include lib/foreign.lua
local function executions_of(run)
  local key, found = RQ_EXECUTIONS .. run, {}
  for n, execution in ipairs(is_a(key, 'zset') and redis.call('ZRANGE', key, 0, -1) or {}) do
    found[n] = run .. ':' .. execution
  end
  return found
end

local function is_alive(executions)
  for _, execution in ipairs(executions) do
    if redis.call('EXISTS', RQ_EXECUTION .. execution) == 1 then
      return true
    end
  end
  return false
end
