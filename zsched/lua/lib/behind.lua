-- behind: go on only if the log ends where the caller read it to, or what came behind touches none of its schedules
-- (rule: COMPARE_AND_SET).
--
-- USES   log_key seen_entry seen_t now_ms, wanted = set of schedule ids
--
-- Clients write all the time, and then the log never ends where it was read to. What cannot be told apart here, or
-- concerns recovery itself, means AGAIN: the caller reads it and compares once more.
local MOST = 100  -- entries that are looked at: on a slow network so many come between reading the log and writing
-- Where the ids of an entry stand: as texts of their own, or in texts as words, alone or at the head of a run id.
local ID_TEXTS = {
  put = true, put_recurring = true, cancel = true, pause = true, resume = true, run_now = true, term = true,
}
local ID_WORDS = {
  fire = true, advance = true, backfill = true, replan = true, quarantine = true, enqueue = true, ['end'] = true,
  again = true, unblock = true,
}
local RUN = '%-%d%d%d%d%d%d%d%d%d%d%d+'  -- what follows an id in a run id: epoch milliseconds

local function is_wanted(word)
  return wanted[word] or wanted[string.match(word, '^(.+)' .. RUN) or 1]
    or wanted[string.match(word, '^(.-)' .. RUN) or 1]
end

local function is_touched(entry)
  local kind, texts = entry[2], entry
  for i = 5, #texts do
    if ID_TEXTS[kind] then
      if wanted[texts[i]] then return true end
    else
      for word in string.gmatch(texts[i], '[^%s=]+') do
        if is_wanted(word) then return true end
      end
    end
  end
  return not (ID_TEXTS[kind] or ID_WORDS[kind])
end

local last = redis.call('XREVRANGE', log_key, '+', '-', 'COUNT', 1)[1]
if (last and last[1] or '-') ~= seen_entry or (last and last[2][4] or '0') ~= seen_t then
  local came = redis.call('XRANGE', log_key, seen_entry == '-' and '0-1' or seen_entry, '+', 'COUNT', MOST + 2)
  local first = came[1]
  local goes_on = seen_entry ~= '-' and first and first[1] == seen_entry and first[2][4] == seen_t
  if not goes_on or #came > MOST + 1 then
    return {'AGAIN', now_ms}
  end
  for i = 2, #came do
    if is_touched(came[i][2]) then
      return {'AGAIN', now_ms}
    end
  end
end
