-- now: push runs at once, because a client asks for them. Their deadlines count from now.
--
-- USES   run_suffix
-- GIVES  free_run(id, at_ms, least)  the first free run id of this millisecond: with -r<k> from k = *least*; 0 is the
--          plain id
--        order(run, fields, at_front)  a job for launch, with its run and queue; nil if a key of the queue or of the
--          rate limit is of a wrong type. *fields* of RQ's job, or of a template, are by their names
--        rows_of(orders)  the rows of an entry `enqueue`, of orders with the texts `fields`, and `of`
--        push_now(orders)  after the entry; an order without `template` and `fields` is of a run that has its job
-- include lib/op.lua
-- include lib/place.lua
-- include lib/launch.lua
function free_run(id, at_ms, least)
  local run, k = id .. '-' .. string.format('%.0f', at_ms) .. run_suffix, least
  local free = k == 0 and run or run .. '-r' .. k
  while redis.call('EXISTS', RQ_JOB .. free) == 1 do
    k = k + 1
    free = run .. '-r' .. k
  end
  return free
end

function order(run, fields, at_front)
  local rate_limit = limit_of(fields.rate_limit_key, fields.rate_limit_concurrency)
  if rate_limit == false or not queue_accepts(fields.origin) then
    return nil
  end
  local expires_ms = whole_of(fields.zs_expires)
  return {run = run, queue = fields.origin, rate_limit = rate_limit, at_front = at_front,
    deadline_ms = expires_ms and now_ms + expires_ms}
end

function rows_of(orders)
  local rows = {'rows', #orders}
  for _, one in ipairs(orders) do
    rows[#rows + 1] = one.run
    rows[#rows + 1] = table.concat({one.at_front and '1' or '0', #one.fields / 2, one.of}, ' ')
    for _, text in ipairs(one.fields) do
      rows[#rows + 1] = text
    end
  end
  return rows
end

function push_now(orders)
  for _, one in ipairs(orders) do
    launch(one.run, one.queue, one)
  end
  push_all()
end
