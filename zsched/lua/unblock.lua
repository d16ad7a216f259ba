-- unblock: release runs that RQ would leave waiting, withdraw replaced runs, drop finished runs from chains.
--
-- KEYS   lease meta log chains rq_queues rq_limits deadlines
-- ARGV   @term
--        ...   three texts per chain: its schedule's id, the action, and the run, as in the reply of survey
-- RETURNS  OK, now ms, list of the runs that were released, list of the chains that no longer need the action
--          |  STALE  |  SERVER
-- LOGS   unblock: rows = run id, why
--        end: rows of runs that were withdrawn, as in advance
--
-- RQ's worker may release a run at the same time. It watches the sets of dependents, and the run is removed from them
-- here, so only one of the two succeeds.
-- include lib/fence.lua
-- include lib/mend.lua

if not is_a(chains_key, 'hash') then
  return redis.error_reply('WRONGTYPE ' .. chains_key .. ' is no hash')
end

local changed = {}
for i = ROWS, #ARGV, 3 do
  local id, what, run = unpack(ARGV, i, i + 2)
  local need = need_of(id, redis.call('HGET', chains_key, id))
  if need and need.what == what and (need.run or '-') == run then
    plan(need)
  else
    changed[#changed + 1] = id
  end
end
log_plans()
mend_planned()
push_all()
return {'OK', now_ms, released, changed}
