-- audit: return all places of schedules, and whether conclusions are possible now.
--
-- KEYS   lease @schedules
-- ARGV   @term
--        ...   per schedule: id, and the rest of its waiting run's id after that, '' for a recurring schedule
-- RETURNS  OK, now ms, hold ms, id and t of the log's last entry or '' twice, then per schedule: its places by spaces
--          (high normal low paused quarantine), and the status of that run's job or ''  |  STALE  |  SERVER
-- LOGS   nothing
-- include lib/fence.lua
-- include lib/find.lua

local ids, runs = {}, {}
for i = ROWS, #ARGV, 2 do
  ids[#ids + 1], runs[#runs + 1] = ARGV[i], ARGV[i + 1]
end
local places = {}
for i = 1, #ids do
  places[i] = {}
end
local function note(place, values)
  for i = 1, #ids do
    if values[i] then
      places[i][#places[i] + 1] = place
    end
  end
end
if #ids > 0 then
  for _, lane in ipairs(lanes) do
    note(lane, redis.call('ZMSCORE', lane_keys[lane], unpack(ids)))
  end
  note('paused', redis.call('HMGET', paused_key, unpack(ids)))
  note('quarantine', redis.call('HMGET', quarantine_key, unpack(ids)))
end

local last = redis.call('XREVRANGE', log_key, '+', '-', 'COUNT', 1)[1]
local reply = {'OK', now_ms, hold_ms, last and last[1] or '', last and last[2][4] or ''}
for i = 1, #ids do
  local status = nil
  if runs[i] ~= '' then
    status = redis.pcall('HGET', RQ_JOB .. ids[i] .. '-' .. runs[i], 'status')
  end
  reply[#reply + 1] = table.concat(places[i], ' ')
  reply[#reply + 1] = type(status) == 'string' and word_of(status) or ''
end
return reply
