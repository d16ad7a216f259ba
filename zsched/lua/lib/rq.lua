-- rq: RQ's keys: what stands before the name of a queue or worker, or before the id of a job.
--
-- GIVES  the names below; dependents_key(run), dependencies_key(run), intermediate_key(queue)
--
-- A script that uses one of them, or includes a piece that does, includes this before. storage/scripts.py puts RQ's
-- prefix in where {rq} stands. storage/rqkeys.py says what is at these keys.
local RQ_CANCELED = '{rq}:canceled:'
local RQ_DEFERRED = '{rq}:deferred:'
local RQ_EXECUTION = '{rq}:execution:'
local RQ_EXECUTIONS = '{rq}:executions:'
local RQ_FAILED = '{rq}:failed:'
local RQ_JOB = '{rq}:job:'
local RQ_LOCK = '{rq}:scheduler-lock:'
local RQ_PUBSUB = '{rq}:pubsub:'
local RQ_QUEUE = '{rq}:queue:'
local RQ_RESULTS = '{rq}:results:'
local RQ_SCHEDULED = '{rq}:scheduled:'
local RQ_WIP = '{rq}:wip:'

local function dependents_key(run)
  return RQ_JOB .. run .. ':dependents'
end

local function dependencies_key(run)
  return RQ_JOB .. ':' .. run .. ':dependencies'  -- two colons: RQ's own
end

local function intermediate_key(queue)
  return RQ_QUEUE .. queue .. ':intermediate'
end
