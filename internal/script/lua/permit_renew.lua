-- Renews the lease of one permit. It is not shortened. A run that renews writes in any case: see renew.lua.
--   KEYS 1 holder: only one key, as for renew.lua
--   ARGV 1 id  2 lease (ms)
--   returns 1  renewed      0  not held by this id
-- Rules 13, 21 and 26 of docs/protocol.md.
local call, lease, field = redis.call, tonumber(ARGV[2]), 'p:' .. ARGV[1]
local h, time = call('HMGET', KEYS[1], 'mode', field, 'last'), call('TIME')
local now_ms = math.floor(time[1] * 1000 + time[2] / 1000)
local last = tonumber(h[3]) or 0
local ends, rest = string.match(h[2] or '', '^(%d+)( .*)$')
if h[1] ~= 'permit' or not ends or tonumber(ends) <= now_ms then return 0 end
-- A full memory refuses neither this write nor those after it. On an embedded server the hash may have expired just now. It may
-- have no expiry yet, if a script was cut off: the other permits count, too.
if call('PEXPIRE', KEYS[1], math.max(call('PTTL', KEYS[1]), last - now_ms, lease)) == 0 then return 0 end
if tonumber(ends) < now_ms + lease then
  last = math.max(last, now_ms + lease)
  call('HSET', KEYS[1], field, string.format('%.0f', now_ms + lease) .. rest, 'last', string.format('%.0f', last))
end
return 1
