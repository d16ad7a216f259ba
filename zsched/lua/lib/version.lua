-- version: what a caller has read of a schedule. Each put, update, pause and resume makes a new one; a fire does not.
--
-- GIVES  version_of(id, at)
--        touch(id, at)
--
-- It is unique over all histories of a namespace. A recurring schedule's is the position of the entry that changed it:
-- <epoch>-<seq>-<t>. A one-shot's is the created_at of its waiting job, which is there anyway; after a pause or resume,
-- which create nothing, it is zs_version beside it. Both are a time within the millisecond before the change, at a
-- microsecond by the number of the entry. So two changes in a millisecond differ, it is not after the push of the job,
-- and rounded up it is the time of the change.
-- include lib/place.lua
-- include lib/progress.lua
-- include lib/stamp.lua

-- Return the version of a schedule, '-' if there is none. `at` is a result of find.
function version_of(id, at)
  local held
  if at and at.recurring then
    held = (progress_of(id) or {}).version
  elseif at and at.due_ms ~= '-' then
    local job = redis.pcall('HMGET', run_key(id, at.due_ms), 'zs_version', 'created_at')
    held = not job.err and (job[1] or job[2])
  end
  return type(held) == 'string' and held or '-'
end

-- Give a schedule a new version, by the entry that was appended last.
function touch(id, at)
  if version_of(id, at) == '-' then
    return
  elseif at.recurring then
    change_progress(id, {version = string.format('%.0f-%.0f-%s', epoch, seq, t)})
  else
    redis.call('HSET', run_key(id, at.due_ms), 'zs_version', stamp(now_ms, seq))
  end
end
