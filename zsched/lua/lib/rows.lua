-- rows: the rows of an entry: the id of a schedule or run, zsched's own words, and perhaps another writer's text.
--
-- USES   append
-- GIVES  add_row(rows, of, words, text)  rows: {} or {head = {…, 'rows', 0}}; text: in a field without a name
--        append_rows(kind, rows)  thousands of rows are several entries; returns the id of the last, nil without rows
function add_row(rows, of, words, text)
  local fields = rows[#rows]
  if not fields or #fields > 4000 then  -- texts of an entry; unpack fails near 8,000
    fields = {unpack(rows.head or {'rows', 0})}
    rows[#rows + 1] = fields
  end
  local at, count_at = #fields, rows.head and #rows.head or 2
  fields[count_at], fields[at + 1], fields[at + 2] = fields[count_at] + 1, of, words
  if text then
    fields[at + 3], fields[at + 4] = '', text
  end
end

function append_rows(kind, rows)
  local entry
  for _, fields in ipairs(rows) do
    entry = append(kind, fields)
  end
  return entry
end
