-- texts: field/value texts as a table.
--
-- GIVES  by_name(texts, first, last)
function by_name(texts, first, last)
  local found = {}
  for i = first, last, 2 do
    found[texts[i]] = texts[i + 1]
  end
  return found
end
