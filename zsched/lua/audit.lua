-- audit: return the schedules that are missing, or whose hash, template or job is missing.
--
-- KEYS   @schedules
-- ARGV   @prefixes
--        ...   per schedule: id, and the rest of its waiting run's id after that, '' for a recurring schedule
-- RETURNS  OK, ids
-- LOGS   nothing
-- include lib/place.lua

local ids = {}
for i = ROWS, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
end
local reply = {'OK'}
for i, at in ipairs(find(ids)) do
  local id, run = ids[i], ARGV[ROWS + 2 * i - 1]
  local wanted = run == '' and {schedule_prefix .. id, template_prefix .. id} or {RQ_JOB .. id .. '-' .. run}
  if not at or at.place == 'ended' or redis.call('EXISTS', unpack(wanted)) < #wanted then
    reply[#reply + 1] = id
  end
end
return reply
