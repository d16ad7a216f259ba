-- rq: RQ's keys with a word behind the name. The others are RQ_<KIND> .. name: see load in storage/scripts.py.
--
-- GIVES  dependents_key(run) dependencies_key(run)
function dependents_key(run)
  return RQ_JOB .. run .. ':dependents'
end

function dependencies_key(run)
  return RQ_JOB .. ':' .. run .. ':dependencies'  -- two colons: RQ's own
end
