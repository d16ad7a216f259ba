-- behind: continue only if the log ends where the caller read it, or if later entries touch none of its schedules
-- (rule: COMPARE_AND_SET).
--
-- USES   meta_key log_key seen_entry seen_t now_ms
--        wanted  set of schedule ids
-- RETURNS  AGAIN, now ms
--
-- Clients write all the time, so the log seldom ends where it was read. An entry without ids, or an archive's own
-- entry, means AGAIN: the caller reads it and compares once more. The entry that the caller read is mostly its own last
-- restore, which is as long as all of its rows. meta.restored has its id and t, so it need not be read here.
local MOST = 100  -- entries to look at: on a slow network so many come between reading the log and writing
-- Names of the fields that contain ids as words, for entries of all kinds (lib/meta.lua). After `rows` the names of
-- fields are ids themselves.
local IDS = {id = true, run = true, runs = true, uncertain = true, skipped = true, expired = true, cancelled = true}
local WORD = '[^%s=]+'
local RUN = '%-%d%d%d%d%d%d%d%d%d%d%d+'  -- after the id in a run id: epoch milliseconds

local function is_wanted(word)
  return wanted[word] or wanted[string.match(word, '^(.+)' .. RUN) or 1]
    or wanted[string.match(word, '^(.-)' .. RUN) or 1]
end

local function is_touched(texts)
  local says_ids, is_in_rows = false, false
  for i = 5, #texts, 2 do
    local name = texts[i]
    if is_in_rows then
      if is_wanted(name) then return true end
    elseif name == 'archive' then
      return true
    elseif name == 'rows' then
      says_ids, is_in_rows = true, true
    elseif IDS[name] then
      says_ids = true
      for id in string.gmatch(texts[i + 1], WORD) do
        if is_wanted(id) then return true end
      end
    end
  end
  return not says_ids
end

local function has_seen()
  if redis.call('HGET', meta_key, 'restored') == seen_entry .. ' ' .. seen_t then
    return redis.call('EXISTS', log_key) == 1
  end
  local seen = seen_entry ~= '-' and redis.call('XRANGE', log_key, seen_entry, seen_entry)[1]
  return seen and seen[2][4] == seen_t
end

local came = redis.call('XRANGE', log_key, seen_entry == '-' and '-' or '(' .. seen_entry, '+', 'COUNT', MOST + 1)
local is_same = #came <= MOST and (has_seen() or seen_entry == '-' and #came == 0)
for _, later in ipairs(came) do
  is_same = is_same and not is_touched(later[2])
end
if not is_same then
  return {'AGAIN', now_ms}
end
