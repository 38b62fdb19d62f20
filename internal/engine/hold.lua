-- Shared by the scripts that may grant: the server's clock, fencing tokens, the holder's hash. They have
-- named the fencing counter's key before.
-- TIME is read once; all times of a run are compared with it. Milliseconds in now, microseconds in us.
local call = redis.call
local time = call('TIME')
local us = time[1] * 1000000 + time[2]
local now = math.floor(us / 1000)

local MAX = 2 ^ 53 -- above it Lua's numbers lose digits

-- Returns what is written as digits, if it is below MAX; else nil.
local function digits(text)
  if type(text) ~= 'string' or text == '' or #text > 16 or string.find(text, '%D') then return nil end
  local number = tonumber(text)
  if number < MAX then return number end
end

-- Returns the last token that was given, 0 if none was, and nil if the counter holds something strange.
local function counter()
  local last = redis.pcall('GET', fence)
  if not last then return 0 end
  return digits(last)
end
local STRANGE = {err = 'WRONGTYPE the fencing counter is not one of ours'}

-- Reserves up to `want` tokens above every token given before and returns the first one and how many
-- there are; nil if the counter is strange. Tokens above one are taken only from
-- microseconds that have passed, so that the counter never runs ahead of the clock that seeds it.
local function reserve(want)
  local last = counter()
  if not last then return nil end
  local count = last == 0 and 1 or math.max(1, math.min(tonumber(want), us - last))
  local top = math.max(last + count, us)
  if top >= MAX then return nil end
  return top - count + 1, count
end

-- Makes `id` the holder. The counter is written first: it is what a full memory refuses. Numbers are
-- formatted, as joining them to strings loses digits. Fields are left out that say nothing new:
-- 'tokens' if it is 1, 'mode' if it is exclusive, 'since' if it equals the token, an empty 'trace', and
-- 'wanted' if nobody waits.
local function hold(id, first, count, mode, lease, inbox, owner, trace, waiting)
  local token = string.format('%.0f', first)
  call('SET', fence, count == 1 and token or string.format('%.0f', first + count - 1))
  local fields = {'id', id, 'owner', owner, 'token', token, 'inbox', inbox}
  local function field(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  if count > 1 then field('tokens', count) end
  if mode ~= 'exclusive' then field('mode', mode) end
  if first ~= us then field('since', string.format('%.0f', us)) end
  if trace ~= '' then field('trace', trace) end
  if waiting > 0 then field('wanted', 1) end
  call('HSET', KEYS[1], unpack(fields))
  call('PEXPIRE', KEYS[1], lease)
end
