-- track: record which runs are over.
--
-- KEYS   lease meta log
-- ARGV   token expected_server        this term's
--        seen_entry seen_t            id and t of an entry of the history in which the runs were fired
--        ...   run ids
-- RETURNS  OK, now ms, the entry's id and t or - and 0, number of runs that ended  |  STALE  |  SERVER  |  LOST
-- LOGS   end: rows = lines "<run id> <status> <started_at|-> <ended_at|->", as RQ writes times
--        status: finished failed stopped canceled, or gone when RQ holds nothing of it any more
--
-- LOST: the log does not contain that entry, so this Redis may never have heard of the runs; that their jobs
-- are not here says nothing then.
local lease_key, meta_key, log_key = unpack(KEYS)
local token, expected_server, seen_entry, seen_t = unpack(ARGV, 1, 4)
-- include lib/meta.lua
-- include lib/fence.lua

local seen = redis.call('XRANGE', log_key, seen_entry, seen_entry)[1]
if not seen or seen[2][4] ~= seen_t then
  return {'LOST'}
end
local OVER = {finished = true, failed = true, stopped = true, canceled = true}
local function time(value)
  return value and string.match(value, '^%S+$') or '-'
end

local rows = {}
for i = 5, #ARGV do
  local job = redis.pcall('HMGET', 'rq:job:' .. ARGV[i], 'status', 'started_at', 'ended_at')
  if job.err and not string.find(job.err, 'WRONGTYPE', 1, true) then
    return job  -- not allowed to look, say: that tells nothing of the job
  end
  local status = job[1] or 'gone'
  if (OVER[status] or status == 'gone') and not string.find(ARGV[i], '%s') then  -- none of ours has a space in it
    rows[#rows + 1] = table.concat({ARGV[i], status, time(job[2]), time(job[3])}, ' ')
  end
end
if #rows == 0 then
  return {'OK', now_ms, '-', '0', 0}
end
local entry = append('end', {'rows', table.concat(rows, '\n')})
return {'OK', now_ms, entry, t, #rows}
