-- Shared by the scripts that may grant: the server's clock, fencing tokens, the holder's hash.
-- TIME is read once; all times of a run are compared with it. Milliseconds in now, microseconds in us.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]
local now = math.floor(us / 1000)

-- Reserves up to `want` tokens above every token given before and returns the first one and how many
-- there are; nil if the counter holds something strange. Tokens above one are taken only from
-- microseconds that have passed, so that the counter never runs ahead of the clock that seeds it.
local function reserve(want)
  local last = redis.pcall('GET', KEYS[4])
  if type(last) == 'table' then return nil end
  local count, top = 1, us
  if last then
    last = tonumber(last)
    if not last then return nil end
    count = math.max(1, math.min(tonumber(want), us - last))
    top = math.max(last + count, us)
  end
  return top - count + 1, count
end

-- Makes `id` the holder. The counter is written first: it is what a full memory refuses.
local function hold(id, first, count, mode, lease, inbox, owner, trace)
  redis.call('SET', KEYS[4], string.format('%.0f', first + count - 1))
  redis.call('HSET', KEYS[1], 'id', id, 'owner', owner, 'token', string.format('%.0f', first),
    'tokens', count, 'mode', mode, 'since', string.format('%.0f', us), 'inbox', inbox, 'trace', trace)
  redis.call('PEXPIRE', KEYS[1], lease)
end
