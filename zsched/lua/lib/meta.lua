-- meta: check format and prefix before a script reads or writes schedules; append entries to the log.
--
-- USES   meta_key log_key by
-- GIVES  throttled_words version() append(kind, fields)
--        add_row(rows, of, words, text) append_rows(kind, rows)  rows begins as {}
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

-- Append one entry, before any other write of the script: Redis may refuse it, and then nothing is applied.
-- lib/behind.lua finds ids by the names of fields. `by`: who asked, or ''.
function append(kind, fields)
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

-- Add a row: the id of a schedule or run, zsched's own words, and perhaps another writer's text, a field without a
-- name.
function add_row(rows, of, words, text)
  local fields = rows[#rows]
  if not fields or #fields > 4000 then  -- texts of an entry; unpack fails near 8,000
    fields = {'rows', 0}
    rows[#rows + 1] = fields
  end
  local at = #fields
  fields[2], fields[at + 1], fields[at + 2] = fields[2] + 1, of, words
  if text then
    fields[at + 3], fields[at + 4] = '', text
  end
end

-- Append the rows, thousands of them in more than one entry. Returns the id of the last one, nil without rows.
function append_rows(kind, rows)
  local entry
  for _, fields in ipairs(rows) do
    entry = append(kind, fields)
  end
  return entry
end
