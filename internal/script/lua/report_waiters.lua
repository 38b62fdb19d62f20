-- Notes how many calls of its own process wait behind a hold, and since when the first of them waits. Only tools that inspect
-- the lock read this. A repeated or late execution does no harm.
--   KEYS 1 holder: only one key, as for renew.lua
--   ARGV 1 id  2 number of waiting calls  3 number of this execution among the executions for this hold
--        4 how long the first call has waited (ms), 0 if not long
--   returns 1  done, by this execution or a later one      0  the id does not hold the lock
-- Rule 10 of docs/protocol.md.
local call = redis.call
local h = call('HMGET', KEYS[1], 'id', 'waiters')
if h[1] ~= ARGV[1] then return 0 end
local last = string.match(h[2] or '', ' (%d+)$') or 0
if tonumber(last) >= tonumber(ARGV[3]) then return 1 end
local note = ARGV[2]
if ARGV[4] ~= '0' then
  local clock = call('TIME')
  note = note .. string.format(' %.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) - ARGV[4])
end
local endless = call('PTTL', KEYS[1]) == -1
call('HDEL', KEYS[1], 'waiters') -- a full memory does not refuse this write or later ones
call('HSET', KEYS[1], 'waiters', note .. ' ' .. ARGV[3])
-- On an embedded server the hash may have just expired.
if not endless and call('PTTL', KEYS[1]) == -1 then call('DEL', KEYS[1]) end
return 1
