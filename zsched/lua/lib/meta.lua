-- meta: what every script begins with that reads or writes schedules, and the one way to append to the log.
--
-- USES   meta_key log_key
-- GIVES  what lib/time.lua and lib/untrusted.lua give; aside_words, append(kind, fields), version()
--        or the reply FORMAT, what the namespace has, what this knows: a newer zsched leads here
-- include lib/time.lua
-- include lib/untrusted.lua
if format > FORMAT then
  return {'FORMAT', meta[9], FORMAT}
end
local aside_words = meta[8] or ''  -- see lib/lanes.lua

-- The id that the next entry will have. Without meta: epoch 0, seq 1.
local function version()
  return string.format('%.0f-%.0f', epoch, seq + 1)
end

-- Append one entry. Each id that it touches stands where lib/behind.lua finds it by the name of the field: a schedule's
-- in `id`; run ids by spaces in `run`, `runs`, `skipped`, `expired` and `cancelled`; both kinds at the head of lines in
-- `rows`, `moves` and `quarantined`; a row of `put` is named by its id. What an archive writes has a field `archive`.
-- Call it before any other write of the script. XADD is the write that Redis
-- refuses when it is out of memory or read-only, so then nothing at all is applied; seq follows
-- it, since an increment before it would leave a hole when it fails.
local function append(kind, fields)
  local id = version()
  redis.call('XADD', log_key, id, 'kind', kind, 't', t, unpack(fields))
  seq = seq + 1
  redis.call('HSET', meta_key, 'seq', string.format('%.0f', seq))
  return id
end
