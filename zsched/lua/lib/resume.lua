-- resume: put schedules back into their lanes, for a client or for the leader.
--
-- USES   schedule_prefix template_prefix place missed seen_version resumes_key ROWS
-- GIVES  resume_all(is_leader)  the reply. A leader changes only schedules whose pause ends by now; it may find others
--          in `resumes`, and takes them out there
--
-- The rows are two texts per schedule: id, each once; and '' or, if missed=skip and a recurring schedule is past its
-- due time, the words of a plan: seen due ms, version, next ms or -, from ms, until ms (valid while from <= TIME <
-- until), jitter ms of the next, and the record of the missed ones, as in advance.
--
-- The counts of failures and of skipped occurrences in a row restart.
-- include lib/version.lua
-- include lib/wake.lua
-- include lib/remove.lua
-- include lib/rows.lua
local WHOLE = '^%d+$'

-- Return whether a quarantined schedule has all that a pass of the leader needs.
local function is_whole(id, at)
  if not at.lane or not string.find(at.due_ms, WHOLE) then
    return false
  elseif not at.recurring then
    local job = redis.pcall('HMGET', run_key(id, at.due_ms), 'status', 'origin', 'zs')
    return not job.err and job[1] == 'scheduled' and job[2] and job[3]
  end
  local schedule = redis.pcall('HMGET', schedule_prefix .. id, 'trigger', 'anchor')
  return not schedule.err and schedule[1] and schedule[2] and (progress_of(id) or {}).nominal_ms
    and type(redis.pcall('HGET', template_prefix .. id, 'origin')) == 'string'
end

-- Return a word, and the due ms for the reply; for a schedule that is resumed also its words in the log.
local function decide(id, at, plan, is_leader)
  if not at then
    return 'NOTFOUND', '-'
  elseif seen_version ~= '' and version_of(id, at) ~= seen_version then
    return 'CHANGED:' .. version_of(id, at), '-'
  elseif at.place == 'quarantine' and place == 'paused' then
    return 'QUARANTINED', '-'
  elseif at.place == 'ended' then
    return 'ENDED', '-'
  elseif at.place ~= place or is_leader and (tonumber(at.until_ms or '') or math.huge) > now_ms then
    return 'unchanged', at.due_ms
  elseif place == 'quarantine' and not is_whole(id, at) then
    return 'BROKEN', '-'
  elseif missed ~= 'skip' or tonumber(at.due_ms) > now_ms then
    return 'resumed', at.due_ms, at.lane .. ' ' .. at.due_ms
  elseif not at.recurring then
    return 'skipped', '-', string.format('%s %s - paused:%s:%s:1', at.lane, at.due_ms, at.due_ms, at.due_ms)
  end
  local seen_due_ms, planned_version, next_ms, from_ms, until_ms, jitter_ms, passed = string.match(plan,
    '^(%S+) (%S+) (%S+) (%d+) (%d+) (%d+) (%S+)$')
  if not is_a(schedule_prefix .. id, 'hash') then
    return 'WRONGTYPE', '-'
  elseif seen_due_ms ~= at.due_ms or version_of(id, at) ~= planned_version or now_ms < tonumber(from_ms)
    or now_ms >= tonumber(until_ms) then
    return 'AGAIN', '-'
  end
  local due_ms = next_ms == '-' and '-' or string.format('%.0f', tonumber(next_ms) + tonumber(jitter_ms))
  at.nominal_ms = next_ms
  return next_ms == '-' and 'skipped' or 'resumed', due_ms, table.concat({at.lane, due_ms, next_ms, passed}, ' ')
end

function resume_all(is_leader)
  local ids, plans = {}, {}
  for i = ROWS, #ARGV, 2 do
    ids[#ids + 1], plans[#plans + 1] = ARGV[i], ARGV[i + 1]
  end
  local found, rows, reply = find(ids), {}, {'OK', now_ms}
  for n, id in ipairs(ids) do
    local word, due_ms, words = decide(id, found[n], plans[n], is_leader)
    if words then
      add_row(rows, id, words, is_leader and string.match(found[n].note, '\31(.*)\31') or nil)
      found[n].next_due_ms = due_ms
    else
      found[n] = false
    end
    reply[#reply + 1], reply[#reply + 2] = word, due_ms
  end
  append_rows('resume', rows)

  for n, id in ipairs(ids) do
    local at = found[n]
    local ends_ms = is_leader and reply[2 * n + 1] ~= 'AGAIN' and redis.call('ZSCORE', resumes_key, id)
    if at or ends_ms and tonumber(ends_ms) <= now_ms then
      redis.call('ZREM', resumes_key, id)
    end
    if at then
      touch(id, at)
      if at.next_due_ms ~= '-' then
        change_progress(id, {nominal_ms = at.nominal_ms})
        leave(id, at)
        enter(at.lane, {at.next_due_ms, id})
      elseif at.recurring then
        leave(id, at)
        redis.call('HSET', schedule_prefix .. id, 'ended_at', string.format('%.0f', now_ms))
        change_progress(id, {nominal_ms = false})
      else
        remove(id, at)
      end
      forget_counts(id)
    end
  end
  return reply
end
