-- Renews the lease of one hold. No lease is shortened, neither this one nor that of other readers. A run that renews
-- writes in any case: replicas may be asked whether they have what it wrote.
--   KEYS 1 holder: only one key, because a script with several fails while a Cluster moves their slot
--   ARGV 1 id  2 lease (ms)
--   returns 1  renewed      2  renewed, and a ticket waits      0  not held by this id
-- Rules 13 and 21 of docs/protocol.md.
local call, lease = redis.call, tonumber(ARGV[2])
local h = call('HMGET', KEYS[1], 'id', 'wanted', 'mode')
if h[1] ~= ARGV[1] then
  if h[3] ~= 'read' then return 0 end
  local field, time = 'reader:' .. ARGV[1], call('TIME')
  local now_ms = math.floor(time[1] * 1000 + time[2] / 1000)
  local ends, rest = string.match(call('HGET', KEYS[1], field) or '', '^(%d+)( .*)$')
  if not ends or tonumber(ends) <= now_ms then return 0 end
  -- A full memory refuses neither this write nor those after it. On an embedded server the hash may have
  -- expired just now.
  if call('PEXPIRE', KEYS[1], math.max(call('PTTL', KEYS[1]), lease)) == 0 then return 0 end
  if tonumber(ends) < now_ms + lease then call('HSET', KEYS[1], field, string.format('%.0f', now_ms + lease) .. rest) end
else
  local ttl = call('PTTL', KEYS[1])
  call('PEXPIRE', KEYS[1], ttl < lease and ARGV[2] or ttl)
end
return h[2] == '1' and 2 or 1
