-- iso: a time as RQ writes times.
--
-- GIVES  iso(ms)  2026-11-21T08:00:00.123000Z; equal length, so texts compare like instants
--
-- Days to civil date: the era algorithm of Howard Hinnant's "chrono-compatible low-level date algorithms".
function iso(ms)
  local seconds = math.floor(ms / 1000)
  local days, rest = math.floor(seconds / 86400), seconds % 86400
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day, month = doy - math.floor((153 * mp + 2) / 5) + 1, mp < 10 and mp + 3 or mp - 9
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d000Z', yoe + era * 400 + (month <= 2 and 1 or 0), month, day,
    math.floor(rest / 3600), math.floor(rest % 3600 / 60), rest % 60, ms % 1000)
end
