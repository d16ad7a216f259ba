-- restored: read the records of a restore, log them, and note what they show.
--
-- USES   meta_key reason archive names hold_for_ms ROWS
-- GIVES  rows_given()  the records in ARGV (core/record.py), in order: each has id, due_ms, run, place; where in ARGV
--          the texts of its job (first) and of its schedule's hash (first_own) begin; and `kind`: the rest of its
--          words by name, with its shape. Rows with the same words share it
--        places_of(rows)  number and place of the rows with another `place` than asked, as one text; each is logged so
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
-- include lib/texts.lua
local WORDS = '^' .. string.rep('(%S+) ', 9) .. '(.*)$'

local function kind_in(words, shapes)
  local shape, run, place, nominal_ms, last, state, t_us, job_size, own_size, note = string.match(words, WORDS)
  return {shape = shapes[shape], run = run, rest_of_run = string.match(run, '^%+(.*)$'), place = place,
    nominal_ms = nominal_ms, last = last, state = state, t_us = t_us, note = note, job_size = tonumber(job_size),
    own_size = tonumber(own_size)}
end

function rows_given()
  local argv, rows, kinds, at = ARGV, {}, {}, ROWS + 2  -- a global name takes a search each time
  local shapes = {['0'] = {lane = '-', first_own = 1, after_own = 1, first = 1, after = 1}}
  for n = 1, tonumber(ARGV[ROWS + 1]) do
    local after_own = at + 4 + 2 * tonumber(ARGV[at + 3])
    local after = after_own + 2 + 2 * tonumber(ARGV[after_own + 1])
    shapes[string.format('%d', n)] = {lane = ARGV[at + 1], first_own = at + 4, after_own = after_own,
      first = after_own + 2, after = after}
    at = after
  end
  local match, count = string.match, tonumber(argv[at + 1])
  at = at + 2
  for n = 1, count do
    local due_ms, words = match(argv[at + 1], '^(%S+) (.*)$')
    local kind = kinds[words] or kind_in(words, shapes)
    kinds[words] = kind
    local run, first_own = kind.rest_of_run and due_ms .. kind.rest_of_run or kind.run, at + 2 + kind.job_size
    rows[n] = {id = argv[at], due_ms = due_ms, run = run, place = kind.place, kind = kind, first = at + 2,
      first_own = first_own}
    at = first_own + kind.own_size
  end
  return rows
end

function places_of(rows)
  local places = {}
  for n, row in ipairs(rows) do
    if row.place ~= row.kind.place then
      places[#places + 1] = n - 1 .. ' ' .. row.place
      ARGV[row.first - 1] = string.gsub(ARGV[row.first - 1], '^(%S+ %S+ %S+) %S+', '%1 ' .. row.place)
    end
  end
  return table.concat(places, ' ')
end

function log_restore()
  local fields = {'reason', reason, 'archive', archive, unpack(ARGV, ROWS)}
  fields[#fields + 1] = 'format'
  fields[#fields + 1] = '{format}'
  local entry = append('restore', fields)
  redis.call('HSET', meta_key, 'format', '{format}', 'restored', entry .. ' ' .. t)
  if not named and names ~= '' then
    redis.call('HSET', meta_key, 'gen', names)
  end
  hold_on(tonumber(hold_for_ms))
  if reason ~= 'audit' then
    note_loss()
  end
  if reason ~= 'audit' and (doubt_ms < 0 or is_other and doubt_ms < now_ms) then
    redis.call('HSET', meta_key, 'doubt', string.format('%.0f', now_ms))
  end
  return entry
end
