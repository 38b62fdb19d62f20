-- Shows that a waiting process is alive. A repeated execution does no harm.
--   KEYS 1 live processes, see alive.lua: only one key, so that the script runs while a slot moves
--   ARGV 1 inbox  2 '+' if the process is subscribed to it, otherwise '-'
--   returns 1  the hash had an entry of the process
--           0  it had none: the tickets of the process may have been removed as dead
-- Rule 7 of docs/protocol.md.
--@limits
local call, time = redis.call, redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local f = call('HMGET', KEYS[1], ARGV[1], '#last', '#since', '#swept') -- an error of type must come before the first write
call('PEXPIRE', KEYS[1], ALIVE_TTL) -- a full memory does not refuse this write or later ones
local fields = {ARGV[1], ARGV[2] .. now, '#last', now}
if not f[2] or not f[3] or math.abs(now - (tonumber(f[2]) or 0)) >= BEAT_GAP then fields[5], fields[6] = '#since', now end
if math.abs(now - (tonumber(f[4]) or 0)) > FORGOTTEN + 0 then
  -- Now and then, entries of processes that have been gone for long are deleted.
  fields[#fields + 1], fields[#fields + 2] = '#swept', now
  local all, gone = call('HGETALL', KEYS[1]), {}
  for i = 1, #all, 2 do
    local seen = string.match(all[i + 1], '^[+-](%d+)$')
    if seen and now - seen > FORGOTTEN + 0 and #gone < 1000 then gone[#gone + 1] = all[i] end
  end
  if #gone > 0 then call('HDEL', KEYS[1], unpack(gone)) end
end
call('HSET', KEYS[1], unpack(fields))
call('PEXPIRE', KEYS[1], ALIVE_TTL)
return f[1] and 1 or 0
