-- mend: take the actions that chains of runs need.
--
-- USES   chains_key
-- GIVES  plan(need)  with a need of need_of; it only reads
--        plan_urgent(id)  for actions that nobody else takes; it only reads
--        log_plans() mend_planned()  then, in this order, and push_all()
--        released  the runs that are released
-- include lib/rows.lua
-- include lib/overlap.lua
released = {}
local planned, releases, is_looked_at = {}, {}, {}

function plan(need)
  local policy = POLICIES[need.mode]
  if policy.plan then
    policy.plan(need)
  end
  planned[#planned + 1] = need
  if need.run then
    released[#released + 1] = need.run
    add_row(releases, need.run, need.why)
  end
end

function plan_urgent(id)
  local need = not is_looked_at[id] and is_a(chains_key, 'hash') and need_of(id, redis.call('HGET', chains_key, id))
  is_looked_at[id] = true
  if need and need.is_urgent then
    plan(need)
  end
end

function log_plans()
  append_rows('unblock', releases)
  append_rows('end', ends)
end

function mend_planned()
  for _, need in ipairs(planned) do
    local left = POLICIES[need.mode].mend(need)
    local text = need.mode .. ' ' .. table.concat(left, ' ')
    if #left == 0 then
      redis.call('HDEL', chains_key, need.id)
    elseif text ~= need.text then
      redis.call('HSET', chains_key, need.id, text)
    end
  end
end
