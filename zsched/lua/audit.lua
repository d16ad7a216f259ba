-- audit: in which places schedules are, all of them, and whether anything may be concluded from it now.
--
-- KEYS   lease meta log due_high due_normal due_low paused quarantine recurring
-- ARGV   token expected_server        this term's
--        ...   per schedule: id, what follows it in the id of the run that waits, '' of a recurring one
-- RETURNS  OK, now ms, hold ms, id and t of the log's last entry or '' twice, then per schedule: its places by spaces
--          (high normal low paused quarantine), and the status of that run's job or ''  |  STALE  |  SERVER
-- LOGS   nothing
local lease_key, meta_key, log_key, due_high_key, due_normal_key, due_low_key, paused_key, quarantine_key,
  recurring_key = unpack(KEYS)
local token, expected_server = unpack(ARGV, 1, 2)
-- include lib/rq.lua
-- include lib/meta.lua
-- include lib/fence.lua
-- include lib/find.lua
-- include lib/clean.lua

local ids, runs = {}, {}
for i = 3, #ARGV, 2 do
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
