-- note: write down what a task reports of its run, unless its job is gone.
--
-- KEYS   job
-- ARGV   seen   the note that was there when the new one was made, '' for none
--        note   the new one, JSON
-- RETURNS  OK, noted | AGAIN (another one is there) | GONE (so a deleted job does not come back as half of one)
-- LOGS   nothing: it goes into the log with the run's end
local job_key = unpack(KEYS)
local seen, note = unpack(ARGV)

local held = redis.pcall('HMGET', job_key, 'data', 'zs_note')
if held.err and not string.find(held.err, 'WRONGTYPE', 1, true) then
  return held
end
if held.err or not held[1] then
  return {'OK', 'GONE'}
end
if (held[2] or '') ~= seen then
  return {'OK', 'AGAIN'}
end
redis.call('HSET', job_key, 'zs_note', note)
return {'OK', 'noted'}
