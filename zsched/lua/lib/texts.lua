-- texts: field/value texts as a table, and texts of ARGV as a list.
--
-- GIVES  by_name(texts, first, last)  without the numbers all of them
--        texts_at(first, after, to)  texts of ARGV, added to those in *to*
function by_name(texts, first, last)
  local found = {}
  for i = first or 1, last or #texts, 2 do
    found[texts[i]] = texts[i + 1]
  end
  return found
end

function texts_at(first, after, to)
  to = to or {}
  local size = #to + 1 - first
  for i = first, after - 1 do
    to[size + i] = ARGV[i]
  end
  return to
end
