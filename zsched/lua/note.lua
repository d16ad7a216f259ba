-- note: write down what a worker knows of its run, unless its job is gone.
--
-- KEYS   rq_job
-- ARGV   field  of the job's hash: zs_note, what the task reports, JSON | zs_next, what came after it (tasks/chaining)
--        seen   what was there when the new text was made, '' for nothing
--        text   the new one
-- RETURNS  OK, noted | AGAIN (another one is there) | GONE (so a deleted job does not come back as half of one)
-- LOGS   nothing: a note goes into the log with the run's end

local held = redis.pcall('HMGET', rq_job_key, 'data', field)
if held.err and not string.find(held.err, 'WRONGTYPE', 1, true) then
  return held
end
if held.err or not held[1] then
  return {'OK', 'GONE'}
end
if (held[2] or '') ~= seen then
  return {'OK', 'AGAIN'}
end
redis.call('HSET', rq_job_key, field, text)
return {'OK', 'noted'}
