-- rq: RQ's forms of keys and times. A key is a prefix of this file and the name of a queue or worker, or a job's id.
--
-- GIVES  RQ_CANCELED RQ_DEFERRED RQ_EXECUTION RQ_EXECUTIONS RQ_FAILED RQ_FINISHED RQ_JOB RQ_LIMIT RQ_LOCK RQ_PUBSUB
--        RQ_QUEUE RQ_READY RQ_RESULTS RQ_SCHEDULED RQ_WIP
--        dependents_key(run) dependencies_key(run) intermediate_key(queue)
--        limit_allowed_key(key) limit_waiting_key(key)  of a rate limit
--        iso(ms)  2026-11-21T08:00:00.123000Z; equal length, so texts compare like instants
--
-- storage/scripts.py replaces {rq} with the prefix of RQ's keys. storage/rqkeys.py describes each key.
RQ_CANCELED = '{rq}:canceled:'
RQ_DEFERRED = '{rq}:deferred:'
RQ_EXECUTION = '{rq}:execution:'
RQ_EXECUTIONS = '{rq}:executions:'
RQ_FAILED = '{rq}:failed:'
RQ_FINISHED = '{rq}:finished:'
RQ_JOB = '{rq}:job:'
RQ_LIMIT = '{rq}:rl:'
RQ_LOCK = '{rq}:scheduler-lock:'
RQ_PUBSUB = '{rq}:pubsub:'
RQ_QUEUE = '{rq}:queue:'
RQ_READY = '{rq}:ready:'
RQ_RESULTS = '{rq}:results:'
RQ_SCHEDULED = '{rq}:scheduled:'
RQ_WIP = '{rq}:wip:'

function dependents_key(run)
  return RQ_JOB .. run .. ':dependents'
end

function dependencies_key(run)
  return RQ_JOB .. ':' .. run .. ':dependencies'  -- two colons: RQ's own
end

function intermediate_key(queue)
  return RQ_QUEUE .. queue .. ':intermediate'
end

function limit_allowed_key(key)
  return RQ_LIMIT .. key .. ':allowed'
end

function limit_waiting_key(key)
  return RQ_LIMIT .. key .. ':rate_limited'
end

-- Days to civil date: the era algorithm of Howard Hinnant's "chrono-compatible low-level date algorithms".
function iso(ms)
  local seconds = math.floor(ms / 1000)
  local days, rest = math.floor(seconds / 86400), seconds % 86400
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * mp + 2) / 5) + 1
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z', year, month, day,
    math.floor(rest / 3600), math.floor(rest % 3600 / 60), rest % 60, ms % 1000)
end
