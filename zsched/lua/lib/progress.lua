-- progress: what changes in a recurring schedule when it fires, as one text of its hash.
--
-- USES   schedule_prefix
-- GIVES  progress_of(id)  a table: version, nominal_ms, last, state; nil if there is none, or another program broke it
--        progress_text(id, progress) change_progress(id, changes)  false, '' and - as a value: nothing
--
-- The text is nominal ms, last run without the schedule's id, state and version; - for nothing. So a pass of the leader
-- reads and writes one field, of which only the beginning changes. It has at most 64 bytes, unless a namespace has a
-- long name or a schedule much trouble: for a longer one Redis needs twice the memory (hash-max-listpack-value).
local FORM = '^(%-?%d*) ([%w_-]+) ([%l%d=,-]+) (%d+%-%d+%-%d+)$'
local LONGEST_TIME = 16  -- digits that a number of Lua holds

local function word(value)
  return value and value ~= '' and value or '-'
end

function progress_of(id)
  local text = redis.pcall('HGET', schedule_prefix .. id, 'progress')
  local nominal_ms, last, state, version = string.match(type(text) == 'string' and text or '', FORM)
  if version and nominal_ms ~= '' and #nominal_ms <= LONGEST_TIME then
    return {version = version, nominal_ms = nominal_ms ~= '-' and nominal_ms, last = last ~= '-' and id .. '-' .. last,
      state = state ~= '-' and state or ''}
  end
end

function progress_text(id, progress)
  local last = progress.last and string.sub(progress.last, #id + 2)
  return word(progress.nominal_ms) .. ' ' .. word(last) .. ' ' .. word(progress.state) .. ' ' .. progress.version
end

function change_progress(id, changes)
  local progress = progress_of(id)
  if progress then
    for name, value in pairs(changes) do
      progress[name] = value
    end
    redis.call('HSET', schedule_prefix .. id, 'progress', progress_text(id, progress))
  end
end
