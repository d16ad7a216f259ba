-- release: end a term at once and wake the standby.
--
-- KEYS   lease wake
-- ARGV   token           this term's
-- RETURNS  OK  |  STALE
-- LOGS   nothing: the entry of the next term names the next leader

if redis.call('GET', lease_key) ~= token then
  return {'STALE'}
end
redis.call('DEL', lease_key)
redis.call('PUBLISH', wake_key, 'lease')
return {'OK'}
