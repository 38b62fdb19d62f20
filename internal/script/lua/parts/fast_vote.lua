-- Part of acquire.lua: the usual vote. The lock is one of several, is free, and nobody waits for it, and there are as many
-- tokens as are wanted, from the one that is proposed or from the clock on. It does what the rest of the script does, in less
-- time: no function is defined, and digits stay strings. Whatever is not usual is left to the rest, before the first write.
local token = ARGV[9]
if token and token ~= '' and not ARGV[11] and ARGV[6] == 'exclusive' and there == 0 then
  local time, last = call('TIME'), redis.pcall('GET', fence)
  local now, first, count = time[1] * 1000000 + time[2], tonumber(token), tonumber(ARGV[7])
  if first <= now then
    first, token = now, time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  end
  if #token == 16 and first < 2 ^ 52 and first + count <= now + AHEAD
    and (not last or #last == 16 and last < token and not string.find(last, '%D')) then
    if count > 1 then
      call('SET', fence, string.format('%.0f', first + count - 1)) -- a full memory refuses this write
      call('HSET', KEYS[1], 'id', ARGV[1], 'owner', ARGV[4], 'token', token, 'inbox', ARGV[3], 'tokens', ARGV[7])
    else
      call('SET', fence, token)
      call('HSET', KEYS[1], 'id', ARGV[1], 'owner', ARGV[4], 'token', token, 'inbox', ARGV[3])
    end
    if first > now + SINCE then call('HSET', KEYS[1], 'since', string.format('%.0f', now)) end
    if ARGV[8] ~= '' then call('HSET', KEYS[1], 'trace', ARGV[8]) end
    call('PEXPIRE', KEYS[1], ARGV[2])
    return {1, first, count, 0, now}
  end
end
