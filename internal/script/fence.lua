-- Part of the scripts that may grant a lock: the server's clock and the fencing tokens. The script has
-- set the local `fence`, the key of the fencing counter, before.
-- TIME is read once, and all times of a run are compared with it.
-- Rule 18 of docs/protocol.md.
local call = redis.call
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

-- Runs a write, and returns its answer; an error if the key is of another type, or memory is full. Any other refusal ends the
-- script: a replica refuses every write, and the caller must not be answered as if it had been done.
local function try_write(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and not string.find(answer.err, 'WRONGTYPE', 1, true) and not string.find(answer.err, 'OOM', 1, true) then
    return call(...) -- fails again
  end
  return answer
end

local MAX = 2 ^ 53 -- above it Lua's numbers lose digits

-- Returns the number that text is the digits of; nil if it has other characters or is not below MAX.
local function to_number(text)
  if type(text) ~= 'string' or text == '' or #text > 16 or string.find(text, '%D') then return nil end
  local number = tonumber(text)
  if number < MAX then return number end
end

-- Returns the last token that was reserved, 0 if none was, and nil if the counter is not one of ours.
local function last_token()
  local last = redis.pcall('GET', fence)
  if not last then return 0 end
  return to_number(last)
end
local NOT_A_COUNTER = {err = 'WRONGTYPE the fencing counter is not one of ours'}

-- Returns the first of up to `want` tokens that are greater than every token before, and how many there
-- are; nil if the counter is not one of ours. The caller writes the counter. More than one token is taken
-- only from microseconds that have passed, so that the counter never runs ahead of the clock that seeds it.
local function reserve_tokens(want)
  local last = last_token()
  if not last then return nil end
  local count = last == 0 and 1 or math.max(1, math.min(tonumber(want), now_us - last))
  local top = math.max(last + count, now_us)
  if top >= MAX then return nil end
  return top - count + 1, count
end
