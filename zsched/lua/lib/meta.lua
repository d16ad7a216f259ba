-- meta: check format and prefix before a script reads or writes schedules; append entries to the log.
--
-- USES   meta_key log_key by
-- GIVES  throttled_words version() append(kind, fields)
--        add_row(rows, of, words, text) append_rows(kind, rows)  rows begins as {}
-- RETURNS  FORMAT, its format: another zsched keeps the namespace in a format that this one does not know
--          |  PREFIX, its prefix: the runs of the namespace are jobs under another prefix of RQ's keys
-- include lib/time.lua
-- include lib/untrusted.lua
if format > FORMAT or meta[9] and format < OLDEST_FORMAT then
  return {'FORMAT', meta[9]}
end
if meta[10] and meta[10] ~= '{rq}' then
  return {'PREFIX', meta[10]}
end
throttled_words = meta[8] or ''  -- see lib/lanes.lua

-- Return the id of the next entry. Without meta: epoch 0, seq 1.
function version()
  return string.format('%.0f-%.0f', epoch, seq + 1)
end

-- Append one entry. `by`: who asked, as the caller says, or ''; once for all rows of the entry. lib/behind.lua finds
-- each id in it by the name of the field: a schedule's in `id`; run ids by spaces in `run`, `runs`, `skipped`,
-- `expired` and `cancelled`; after `rows` every row is a field named by its id. An entry of an archive has a field
-- `archive`.
-- Call it before any other write of the script. If Redis is out of memory or read-only it refuses XADD, so nothing at
-- all is applied. seq is raised after it: an increment before a failing XADD would leave a hole.
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

-- Add a row: the id of a schedule or run, zsched's own words, and perhaps a text of another writer. That text is a
-- separate field without a name, so it can have any content (core/entry.py reads it).
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
