-- state: the state of a recurring schedule: counts, and occurrences that are skipped by hand, in a word of its
-- progress, such as "failures=2,skips=1,skip=1785283200000".
--
-- USES   failing_key blocked_key
-- GIVES  count_in(state, name)  0 if it is not there
--        with_count(state, name, number)  the new text; '' if nothing is left
--        without_counts(state)  the new text, with only skips
--        state_word(state)  the text in a row of an entry, - for ''
--        keep_state(id, state)  write one that another entry has
--        forget_counts(id)  because somebody paused, resumed or removed the schedule, which may be a one-shot
--
-- A text has absolute values, so an archive keeps the last one, and a restore writes it back. Counts of trouble have an
-- index besides, a ZSET of the schedules with a count: `zsched status` reads it.
-- include lib/progress.lua
local INDEXES = {failures = failing_key, skips = blocked_key}

function count_in(state, name)
  return tonumber(string.match(',' .. (state or ''), ',' .. name .. '=(%d+)') or '') or 0
end

function with_count(state, name, number)
  local words = {}
  for word, value in string.gmatch(state or '', '(%l+)=(%d+)') do
    words[#words + 1] = word ~= name and word .. '=' .. value or nil
  end
  words[#words + 1] = number > 0 and name .. '=' .. string.format('%.0f', number) or nil
  return table.concat(words, ',')
end

function without_counts(state)
  for name in pairs(INDEXES) do
    state = with_count(state, name, 0)
  end
  return state
end

function state_word(state)
  return state == '' and '-' or state
end

function keep_state(id, state)
  change_progress(id, {state = state})
  for name, key in pairs(INDEXES) do
    local number = count_in(state, name)
    if number > 0 then
      redis.call('ZADD', key, string.format('%.0f', number), id)
    else
      redis.call('ZREM', key, id)
    end
  end
end

function forget_counts(id)
  keep_state(id, without_counts((progress_of(id) or {}).state))
end
