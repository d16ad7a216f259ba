-- survey: which chains of runs somebody has to look after. Writes nothing.
--
-- KEYS   chains
-- ARGV   cursor          0, then what the last call answered
--        count           chains to look at, about
-- RETURNS  OK, cursor (0: that was all), then per chain that may need something, joined by \0: its schedule's id, its
--          text, and of its first runs, of `queue` up to the first that is deferred, of `cancel_previous` of all: RQ's
--          status or - of one that is gone, and its worker; of the deferred one "<run> <status>" of the run that RQ has
--          it wait for
-- LOGS   nothing
--
-- Nothing is needed while the only runs that are open are the first of a `queue` and nobody waits for them, or the last
-- of a `cancel_previous`. A text per chain, as look.lua answers.
-- include lib/status.lua

local MODES = {queue = true, cancel_previous = true}

if redis.call('TYPE', chains_key).ok ~= 'hash' then
  return {'OK', '0'}
end

-- Its answer, or nil when it needs nothing.
local function look(id, chain)
  local mode, runs = string.match(chain, '^(%S+) (.*)$')
  if not MODES[mode] then
    return nil
  end
  local told, open, over, waits = {id, chain}, 0, 0, false
  for run in string.gmatch(runs, '%S+') do
    local job = redis.pcall('HMGET', RQ_JOB .. run, 'status', 'worker_name', 'dependency_id')
    if job.err and not string.find(job.err, 'WRONGTYPE', 1, true) then
      return job  -- not allowed to look, say: that tells nothing of the job
    end
    told[#told + 1] = word_of(job[1]) or '-'
    told[#told + 1] = line_of(job[2]) or ''
    if mode == 'queue' and job[1] == 'deferred' then
      waits = true
      told[#told] = job[3] and name_of(job[3]) .. ' ' .. status_of(job[3]) or ''
      break
    end
    if is_open(job[1]) then
      open = open + 1
    else
      over = over + 1
    end
  end
  local is_well = over == 0 and not waits and (mode == 'queue' or open == 1)
  return not is_well and table.concat(told, '\0') or nil
end

local page = redis.call('HSCAN', chains_key, cursor, 'COUNT', count)
local reply = {'OK', page[1]}
for i = 1, #page[2], 2 do
  local told = look(page[2][i], page[2][i + 1])
  if type(told) == 'table' then
    return told
  end
  reply[#reply + 1] = told
end
return reply
