-- get: read all data of some schedules at one moment.
--
-- KEYS   @schedules
-- ARGV   @prefixes
--        ...   ids
-- RETURNS  OK, now ms, id and t of the log's last entry or '' twice, then per id: '' when unknown, else a list of
--          place, lane or '', due ms, '' or -, since ms or '', note or '', 1 when recurring, schedule's pairs,
--          pairs of template or waiting job, all its places by spaces
-- LOGS   nothing
-- include lib/place.lua

local MOST = 1048576  -- bytes of a text, but for the payload: far more than zsched writes; another program's is cut
local IS_PAYLOAD = {data = true, meta = true}

-- A key of the wrong type must not hide the others.
local function pairs_at(key)
  local held = redis.pcall('HGETALL', key)
  for i = 2, #held, 2 do
    if #held[i] > MOST and not IS_PAYLOAD[held[i - 1]] then
      held[i] = string.sub(held[i], 1, MOST)
    end
  end
  return held.err and {} or held
end

local last = redis.call('XREVRANGE', log_key, '+', '-', 'COUNT', 1)[1]
local ids = {unpack(ARGV, ROWS)}
local found, reply = find(ids), {'OK', now_ms, last and last[1] or '', last and last[2][4] or ''}
for i, id in ipairs(ids) do
  local at = found[i]
  if at then
    local schedule = at.recurring and pairs_at(schedule_prefix .. id) or {}
    local job = pairs_at(at.recurring and template_prefix .. id or run_key(id, at.due_ms))
    reply[#reply + 1] = {at.place, at.lane or '', at.due_ms or '', at.since_ms or '', at.note or '',
      at.recurring and 1 or 0, schedule, job, at.places or ''}
  else
    reply[#reply + 1] = ''
  end
end
return reply
