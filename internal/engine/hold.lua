-- Shared by the scripts that may grant: the server's clock, fencing tokens, the holder's hash.
-- TIME is read once; all times of a run are compared with it. Milliseconds in now, microseconds in us.
local call = redis.call
local time = call('TIME')
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

-- Makes `id` the holder. The counter is written first: it is what a full memory refuses. Numbers are
-- formatted, as joining them to strings loses digits; 'tokens' and 'trace' are left out if there is
-- nothing to say.
local function hold(id, first, count, mode, lease, inbox, owner, trace)
  local token = string.format('%.0f', first)
  local since = first == us and token or string.format('%.0f', us)
  if count == 1 then
    call('SET', KEYS[4], token)
  else
    call('SET', KEYS[4], string.format('%.0f', first + count - 1))
  end
  call('HSET', KEYS[1], 'id', id, 'owner', owner, 'token', token, 'mode', mode, 'since', since, 'inbox', inbox)
  if count > 1 then call('HSET', KEYS[1], 'tokens', count) end
  if trace ~= '' then call('HSET', KEYS[1], 'trace', trace) end
  call('PEXPIRE', KEYS[1], lease)
end
