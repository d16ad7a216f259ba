-- note: write a note of a worker into the job of its run, unless the job is gone.
--
-- KEYS   rq_job
-- ARGV   field  of the job's hash: zs_note, the task's report (JSON) | zs_next, the runs that follow (tasks/chaining) |
--                zs_attempts, the failed attempts (core/runs/attempts.py)
--        seen   the old text when the new text was made, or ''
--        text   the new text
-- RETURNS  OK, noted | AGAIN (the old text has changed) | GONE (a write would leave half a job)
-- LOGS   nothing: a note goes into the log with the run's end
-- include lib/hash.lua

local held = read_hash(rq_job_key, 'data', field)
if held.err or not held[1] then
  return {'OK', 'GONE'}
end
if (held[2] or '') ~= seen then
  return {'OK', 'AGAIN'}
end
redis.call('HSET', rq_job_key, field, text)
return {'OK', 'noted'}
