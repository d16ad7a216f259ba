-- restored: read the rows of a restore, log them, and note what they show.
--
-- USES   meta_key reason archive names row_count hold_for_ms ROWS
-- GIVES  row_at(at)  the record in ARGV, as core/record.py writes it: its words, and where its fields begin and end
--        note_place(row)  log it with its `place`
--        log_restore()  the entry's id
--
-- The entry keeps each row's old t, by which archives with different data agree (rule: LATEST_CHANGE). A row may be of
-- a newer format than the leader's, if its archives never saw a newer leader. So the format is noted, as in acquire.
--
-- A restore shows that there was another history. Schedules that are due by now may have been pushed in it. A leader
-- without that knowledge may have taken the data set for a new one, without doubt (name.lua): so doubt is set here, as
-- in acquire. If doubt was set at the loss, it stays: schedules that came due later cannot have been pushed before.
-- But another data set may have gone on after that: its schedules are in doubt until now.
-- A data set without a name gets the name of the archive, so it does not count as new, even if the restorer dies.
-- include lib/hold_on.lua
-- include lib/meta.lua
-- include lib/loss.lua
-- include lib/same_set.lua
local WORDS = '^' .. string.rep('(%S+) ', 9) .. '(%S+)$'

function row_at(at)
  local id, words, _, note = unpack(ARGV, at, at + 3)
  local run, place, lane, due_ms, nominal_ms, last, state, t_us, job_size, own_size = string.match(words, WORDS)
  local first_own = at + 4 + tonumber(job_size)
  return {id = id, run = run, place = place, lane = lane, due_ms = due_ms, nominal_ms = nominal_ms, last = last,
    state = state, t_us = t_us, note = note, words_at = at + 1, first = at + 4, first_own = first_own,
    after = first_own + tonumber(own_size)}
end

function note_place(row)
  ARGV[row.words_at] = string.gsub(ARGV[row.words_at], ' %S+', ' ' .. row.place, 1)
end

function log_restore()
  local fields = {'reason', reason, 'archive', archive, 'rows', row_count, unpack(ARGV, ROWS)}
  fields[#fields + 1] = 'format'
  fields[#fields + 1] = '{format}'
  local entry = append('restore', fields)
  redis.call('HSET', meta_key, 'format', '{format}')
  if not named and names ~= '' then
    redis.call('HSET', meta_key, 'gen', names)
  end
  hold_on(hold_for_ms)
  if reason ~= 'audit' then
    note_loss()
  end
  if reason ~= 'audit' and (doubt_ms < 0 or is_other and doubt_ms < now_ms) then
    redis.call('HSET', meta_key, 'doubt', string.format('%.0f', now_ms))
  end
  return entry
end
