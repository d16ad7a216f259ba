-- moved: whether a one-shot that an import took from RQ is still wanted there.
--
-- USES   moved_prefix
-- GIVES  undone(id)  why it is not wanted any more: deleted, scheduled_again, or the status of RQ's job; nil if it is.
--          Second value: true if nothing shows whether it is
--
-- A service may still cancel or move a job by RQ's own id. While the import's mark is there (imports/moving.py), which
-- lapses before RQ's job does and which no recovery restores, a job that is gone was deleted in this history.
-- include lib/untrusted.lua
local may_evict

function undone(id)
  local created_at = redis.pcall('GET', moved_prefix .. id)
  local job = redis.pcall('HMGET', RQ_JOB .. id, 'status', 'created_at', 'origin')
  if type(created_at) ~= 'string' or job.err then
    return nil, true
  elseif not job[1] and not job[2] then
    if may_evict == nil then
      may_evict = not string.find(redis.call('INFO', 'stats'), 'evicted_keys:0\r')
        or not string.find(redis.call('INFO', 'memory'), 'maxmemory_policy:noeviction')
    end
    return not may_evict and 'deleted' or nil, may_evict
  elseif job[1] ~= 'scheduled' then
    return word_of(job[1] or 'odd')
  end
  local registry = RQ_SCHEDULED .. (job[3] or '')
  if job[2] ~= created_at or is_a(registry, 'zset') and redis.call('ZSCORE', registry, id) then
    return 'scheduled_again'
  end
end
