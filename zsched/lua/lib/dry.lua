-- dry: end a dry run with the places that its rows would have.
--
-- USES   rows places_of reason now_ms
-- GIVES  places
-- RETURNS  OK, now ms, -, 0, places  of a dry run
places = places_of(rows)
if reason == 'dry' then
  return {'OK', now_ms, '-', '0', places}
end
