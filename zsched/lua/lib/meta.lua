-- meta: what every script begins with that reads or writes schedules, and the one way to append to the log.
--
-- USES   meta_key log_key
-- GIVES  what lib/time.lua and lib/untrusted.lua give; throttled_words, version()
--        append(kind, fields); add_row(rows, of, words, text) and append_rows(kind, rows), where rows begins as {}
--        or the reply FORMAT, what the namespace has: another zsched keeps it in a form that this one does not know
--        or the reply PREFIX, what the namespace has: its runs are jobs under another prefix of RQ's keys
-- include lib/time.lua
-- include lib/untrusted.lua
if format > FORMAT or meta[9] and format < OLDEST_FORMAT then
  return {'FORMAT', meta[9]}
end
if meta[10] and meta[10] ~= '{rq}' then
  return {'PREFIX', meta[10]}
end
local throttled_words = meta[8] or ''  -- see lib/lanes.lua

-- The id that the next entry will have. Without meta: epoch 0, seq 1.
local function version()
  return string.format('%.0f-%.0f', epoch, seq + 1)
end

-- Append one entry. Each id that it touches stands where lib/behind.lua finds it by the name of the field: a schedule's
-- in `id`; run ids by spaces in `run`, `runs`, `skipped`, `expired` and `cancelled`; behind `rows` every row is a field
-- that is named by its id. What an archive writes has a field `archive`.
-- Call it before any other write of the script. XADD is the write that Redis
-- refuses when it is out of memory or read-only, so then nothing at all is applied; seq follows
-- it, since an increment before it would leave a hole when it fails.
local function append(kind, fields)
  local id = version()
  redis.call('XADD', log_key, id, 'kind', kind, 't', t, unpack(fields))
  seq = seq + 1
  redis.call('HSET', meta_key, 'seq', string.format('%.0f', seq), 'rq_prefix', '{rq}')
  return id
end

-- Add a row: the id of a schedule or run, words of zsched's own, and a text of somebody else if there is one. That text
-- is a field of its own, without a name, so it can hold anything (core/entry.py reads it).
local MOST_TEXTS = 4000  -- of an entry; unpack fails near 8,000
local function add_row(rows, of, words, text)
  local fields = rows[#rows]
  if not fields or #fields > MOST_TEXTS then
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
local function append_rows(kind, rows)
  local entry
  for _, fields in ipairs(rows) do
    entry = append(kind, fields)
  end
  return entry
end
