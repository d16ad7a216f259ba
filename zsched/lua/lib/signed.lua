-- signed: the signature of a job, which stands behind its data in a row, after a line feed.
--
-- GIVES  signature_of(text) -> the data; and the signature, or nil
--
-- core/signed.py has the form of a signature. Data never ends like one (storage/rqjob.py). In the hash of a job or a
-- template they are two fields, data and zs_sig. In a row of the log they stay together, so its form is the same with
-- and without a signature. Only clients and workers can check a signature: Redis has no key.
local SIGNATURE = '\n[%l%d]+%.' .. string.rep('%x', 9) .. '%.' .. string.rep('[%w_-]', 22) .. '$'
local LONGEST = 42  -- bytes of it, with the line feed

local function signature_of(text)
  local at = string.find(text, SIGNATURE, -LONGEST)
  if at then
    return string.sub(text, 1, at - 1), string.sub(text, at + 1)
  end
  return text
end
