-- states: changes of the states of recurring schedules, with their entry.
--
-- GIVES  change_state(id, state)  collect a change; it only reads
--        log_states()  append the entry `state`: rows = id, state
--        write_states()  write the changes, after the entry
-- include lib/state.lua
-- include lib/rows.lua
local changed, rows = {}, {}

function change_state(id, state)
  changed[id] = state
  add_row(rows, id, state_word(state))
end

function log_states()
  append_rows('state', rows)
end

function write_states()
  for id, state in pairs(changed) do
    keep_state(id, state)
  end
end
