-- texts: field/value texts as a table.
--
-- GIVES  by_name(texts, first, last)  without the numbers all of them
function by_name(texts, first, last)
  local found = {}
  for i = first or 1, last or #texts, 2 do
    found[texts[i]] = texts[i + 1]
  end
  return found
end
