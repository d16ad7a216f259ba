-- meta: check format and prefix before a script reads or writes schedules; append an entry to the log.
--
-- USES   meta_key log_key by
-- GIVES  throttled_words version() append(kind, fields)
-- RETURNS  FORMAT, a format that this zsched cannot read  |  PREFIX, another one of RQ's keys
-- include lib/time.lua
-- include lib/untrusted.lua
if format > tonumber('{format}') or meta[9] and format < tonumber('{oldest_format}') then  -- of core/entry.py
  return {'FORMAT', meta[9]}
end
if meta[10] and meta[10] ~= '{rq}' then
  return {'PREFIX', meta[10]}
end
throttled_words = meta[8] or ''  -- see lib/lanes.lua

function version()
  return string.format('%.0f-%.0f', epoch, seq + 1)
end

-- Append an entry, before all other writes: Redis may refuse it. It also refuses to tell the size of a key that another
-- program wrote as another type: then nothing is written. lib/behind.lua finds ids by the names of fields.
function append(kind, fields)
  -- sizes
  local id = version()
  if by == '' then
    redis.call('XADD', log_key, id, 'kind', kind, 't', t, unpack(fields))
  else
    redis.call('XADD', log_key, id, 'kind', kind, 't', t, 'by', by, unpack(fields))
  end
  seq = seq + 1
  redis.call('HSET', meta_key, 'seq', string.format('%.0f', seq), 'rq_prefix', '{rq}')
  return id
end
