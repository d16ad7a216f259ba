-- status: how far RQ is with a run.
--
-- GIVES  is_open(status); status_of(run), - of one whose job is gone
--        what lib/foreign.lua gives
--        job_of(run) -> {run, status, queue, worker, told_ms}, as lib/withdraw.lua takes it; without a status if gone
-- include lib/rq.lua
-- include lib/foreign.lua
local IS_OPEN = {queued = true, started = true, deferred = true, scheduled = true}  -- as daemon/chains.py has it

local function is_open(status)
  return IS_OPEN[status] or false
end

local function status_of(run)
  local status = redis.pcall('HGET', RQ_JOB .. run, 'status')
  return type(status) == 'string' and word_of(status) or '-'
end

local function job_of(run)
  local job = redis.pcall('HMGET', RQ_JOB .. run, 'status', 'origin', 'worker_name', 'zs_stop')
  return {run = run, status = job[1], queue = job[2] or '', worker = job[3] or '', told_ms = tonumber(job[4] or '')}
end
