-- Renews the lease of one hold. It shortens no lease, neither this one nor the leases of other readers or permits. A renewal
-- always writes, so that replicas have something to acknowledge.
--   KEYS 1 holder: only one key, because a script with several keys fails while a Cluster moves their slot
--   ARGV 1 id  2 lease (ms)
--   returns 1  renewed      2  renewed, and a ticket waits      0  the id does not hold the lock
-- Rules 13, 21 and 26 of docs/protocol.md.
local call, lease = redis.call, tonumber(ARGV[2])
local h = call('HMGET', KEYS[1], 'id', 'wanted', 'mode')
if h[1] == ARGV[1] then
  local ttl = call('PTTL', KEYS[1])
  call('PEXPIRE', KEYS[1], ttl < lease and ARGV[2] or ttl + 1) -- an embedded server rounds PTTL down: many renewals must not shorten it
else
  local begins, time = ({read = 'reader:', permit = 'p:'})[h[3]], call('TIME')
  local field, now_ms = (begins or '') .. ARGV[1], math.floor(time[1] * 1000 + time[2] / 1000)
  local f = begins and call('HMGET', KEYS[1], field, 'last') or {}
  local ends, rest = string.match(f[1] or '', '^(%d+)( .*)$')
  local last = tonumber(f[2]) or 0 -- of permits; it counts if a script was cut off before it set the expiry
  if not ends or tonumber(ends) <= now_ms then
    --+not_held
    return 0
  end
  -- A full memory does not refuse this write or later ones. On an embedded server the hash may have just expired.
  if call('PEXPIRE', KEYS[1], math.max(call('PTTL', KEYS[1]) + 1, last - now_ms, lease)) == 0 then return 0 end
  if tonumber(ends) < now_ms + lease then
    local fields = {field, string.format('%.0f', now_ms + lease) .. rest}
    if f[2] then fields[3], fields[4] = 'last', string.format('%.0f', math.max(last, now_ms + lease)) end
    call('HSET', KEYS[1], unpack(fields))
  end
end
return h[2] == '1' and 2 or 1
