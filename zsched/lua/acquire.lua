-- acquire: begin a term: take the lease, raise the epoch, and check that this is the Redis of the last term.
--
-- KEYS   lease meta log
-- ARGV   daemon          uuid of the daemon
--        nonce           never used before: a rolled-back Redis may give the same epoch twice
--        server_id       of the connection, from INFO
--        lease_ms
-- RETURNS  OK, token, epoch, now ms, hold ms, names of the data set or ''
--        |  BUSY, now ms, ms until the lease lapses  |  OFFSET
-- LOGS   term: epoch's own entry: daemon, server, format
--
-- A token is <daemon>:<epoch>:<lease ms>:<nonce>. The candidate's own lease is no obstacle, even if the reply with its
-- token was lost. A lease without end, or with more time left than its length, is no obstacle either: it was written
-- before the clock jumped back. Taking over is always safe, because every leader's script compares tokens. A changed
-- server (restart, promotion, flush, first start) sets doubt and hold. If an archive found a loss before that, the
-- doubt of the loss moves on (lib/loss.lua).
-- The format is noted: from then on no older zsched reads or writes here (lib/meta.lua), and an archive of an older one
-- stops before this entry (daemon/follower.py).
-- Nothing fires in a data set without a name until name.lua gives it one.
-- OFFSET: a test moved the clock (meta.offset_ms), or another process than this candidate (meta.frozen_by) stopped it
-- (meta.frozen_ms). Firing by that clock would be early or late for everyone but the test.
-- include lib/meta.lua

if meta[6] or meta[7] and redis.call('HGET', meta_key, 'frozen_by') ~= daemon then
  return {'OFFSET'}
end
local left_ms = redis.call('PTTL', lease_key)
local holder, length_ms = string.match(redis.call('GET', lease_key) or '', '^([^:]+):%d+:(%d+):')
if holder ~= daemon and left_ms >= 0 and left_ms <= tonumber(length_ms or '0') then
  return {'BUSY', now_ms, left_ms}
end

-- Without meta the log may still be there: epochs go on above it.
local last = not meta[1] and redis.call('XREVRANGE', log_key, '+', '-', 'COUNT', 1)[1]
if last then
  local last_epoch, last_seq = string.match(last[1], '^(%d+)-(%d+)$')
  epoch, seq = tonumber(last_epoch), math.max(seq, tonumber(last_seq))
end
epoch = epoch + 1
append('term', {'daemon', daemon, 'server', server_id, 'format', '{format}'})
redis.call('HSET', meta_key, 'epoch', string.format('%.0f', epoch), 'format', '{format}')
if server ~= server_id then
  hold_ms = now_ms + tonumber(lease_ms)
  redis.call('HSET', meta_key, 'server', server_id, 'doubt', string.format('%.0f', now_ms),
    'hold', string.format('%.0f', hold_ms))
  redis.call('HDEL', meta_key, 'shown')
  local loss = redis.call('HMGET', meta_key, 'lost', 'lost_epoch')
  if loss[1] and (loss[2] == string.format('%.0f', epoch - 1) or (whole_of(loss[1]) or math.huge) > now_ms) then
    redis.call('HSET', meta_key, 'lost', string.format('%.0f', now_ms))
  end
end
local token = table.concat({daemon, string.format('%.0f', epoch), lease_ms, nonce}, ':')
redis.call('SET', lease_key, token, 'PX', lease_ms)
return {'OK', token, epoch, now_ms, hold_ms, redis.call('HGET', meta_key, 'gen') or ''}
