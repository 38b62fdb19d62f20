-- Part of the scripts that may grant a lock: the server's clock and the fencing tokens. Before this part, the script must set
-- the local `fence`, the key of the fencing counter. TIME is read once, and all times of one execution are compared with it.
-- Rule 18 of docs/protocol.md.
local call = redis.call
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

-- Returns the digits of a whole number. Concatenation would lose some.
local function digits(number) return string.format('%.0f', number) end

-- Runs a write and returns its answer, which is an error if the key is of another type or memory is full. Any other refusal
-- ends the script: a replica refuses every write, and its caller must not get an answer as if the write had been done.
local function try_write(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and not string.find(answer.err, 'WRONGTYPE', 1, true) and not string.find(answer.err, 'OOM', 1, true) then
    return call(...) -- fails again
  end
  return answer
end

local MAX = 2 ^ 53 -- Lua numbers above it lose digits

-- Returns the number whose digits are `text`; nil if it has other characters or is not below MAX.
local function to_number(text)
  if type(text) ~= 'string' or text == '' or #text > 16 or string.find(text, '%D') then return nil end
  local number = tonumber(text)
  if number < MAX then return number end
end

-- Returns the last token that was reserved, 0 if there is none, and nil if the key does not contain a fencing counter.
local function last_token()
  local last = redis.pcall('GET', fence)
  if not last then return 0 end
  return to_number(last)
end
-- Returns the first of up to `want` tokens that are greater than every earlier token, and their number; nil if there is none:
-- see counter_error. The caller writes the counter. More than one token is taken only from microseconds that have passed, so
-- the counter never runs ahead of the clock that seeds it.
local function reserve_tokens(want)
  local last = last_token()
  if not last then return nil end
  local count = last == 0 and 1 or math.max(1, math.min(tonumber(want), now_us - last))
  local top = math.max(last + count, now_us)
  if top >= MAX then return nil end
  return top - count + 1, count
end

-- Returns an error that says why no token can be reserved.
local function counter_error()
  if not last_token() then
    return {err = 'WRONGTYPE ' .. fence .. ' is not a fencing counter, which is a number below 2^53: choose another prefix, or delete it'}
  end
  if now_us >= MAX then
    return {err = 'WRONGTYPE the server has no fencing token, as its clock is past the year 2255: set the clock'}
  end
  return {err = 'WRONGTYPE the fencing counter ' .. fence .. ' is used up at 2^53 - 1: when no lock is held, delete it, '
    .. 'and reset the tokens that are stored with your data'}
end
