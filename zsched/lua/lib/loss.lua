-- loss: note that a loss was found, so that its doubt stays (rule: LOSS_STAYS).
--
-- USES   meta_key doubt_ms now_ms epoch
-- GIVES  note_loss()  after append
--
-- meta.lost is the doubt of the change of server at which data was lost: runs due until then stay in doubt, whenever
-- they are put. An archive may find the loss before the leader notices the change: then acquire finds meta.lost_epoch,
-- and moves meta.lost on.
-- include lib/untrusted.lua
function note_loss()
  local lost_ms, until_ms = redis.call('HGET', meta_key, 'lost'), doubt_ms < 0 and now_ms or doubt_ms
  lost_ms = math.max(whole_of(lost_ms) or until_ms, until_ms)
  redis.call('HSET', meta_key, 'lost', string.format('%.0f', lost_ms), 'lost_epoch', string.format('%.0f', epoch))
end
