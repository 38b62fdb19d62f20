--@permits_shown
-- Part of acquire.lua: the fast path into the queue for permits in the usual case, in which there is no room for the permit,
-- and its ticket goes behind all others. It does the same as the rest of the script, but defines few functions, and numbers
-- stay strings. A 'break' leaves all other cases to the rest, before the first write.
repeat
  local id, n, w = ARGV[1], ARGV[9], ARGV[7]
  if ARGV[11] or ARGV[5] == '0' then break end -- a predecessor, a kept place, or no ticket wanted
  local f = call('HMGET', KEYS[1], 'mode', 'used', 'map', 'next', 'last', 'p:' .. id)
  local used, next, last = f[2], f[4], f[5]
  if f[1] ~= 'permit' or not used or not f[3] or not next or not last or f[6] then break end
  if #used > 15 or #next ~= 13 or #last ~= 13 or not string.find(used .. next .. last, '^%d+$') then break end
  if used == '' or call('EXISTS', KEYS[7]) == 1 or call('ZSCORE', KEYS[2], id) then break end

  -- If the clock is ahead of all tokens and places, the new place is the time. All of them have 16 digits.
  local counter, tail = redis.pcall('GET', fence), call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2]
  if type(counter) ~= 'string' then break end
  local time = call('TIME')
  local now = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  local numbers = counter .. (tail or now)
  if #counter ~= 16 or #numbers ~= 32 or string.find(numbers, '%D') or counter >= now or tail and tail >= now then break end
  local now_ms = string.sub(now, 1, 13)
  if now_ms >= next then break end -- a permit may have ended

  if tail then
    -- The process of the first ticket is alive, and there is no room for its permit.
    local head = call('ZRANGE', KEYS[2], '0', '0')[1]
    local head_w, inbox, since, head_n = string.match(call('HGET', KEYS[3], head) or '', '^[^ ]+ [^ ]+ (%d+):?[^ ]* ([^ ]+) [^ ]+ (%d+)[^ ]* (%d+) ?[^ ]*$')
    if not head_w or head_w + 0 < 1 or head_w + 0 > head_n + 0 or head_n + 0 > MAX_PERMITS or used + head_w <= head_n + 0 then break end
    --+was_seen
  elseif call('EXISTS', KEYS[3]) == 1 or used + w <= n + 0 then
    break
  end

  call('ZADD', KEYS[2], now, id)
  local ticket = 'permit ' .. ARGV[2] .. ' ' .. w .. string.sub(ARGV[5], 2) .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. now .. ' ' .. n .. ' ' .. ARGV[8]
  call('HSET', KEYS[3], id, ticket)
  if not tail then
    call('PEXPIRE', KEYS[2], QUEUE_TTL)
    call('PEXPIRE', KEYS[3], QUEUE_TTL)
  end
  call('PEXPIRE', KEYS[1], math.max(last - now_ms, QUEUE_TTL))
  local length = call('ZCARD', KEYS[2])
  return {4, counter + 0, length, length, now + 0, show_permits(next, now_ms, now)}
until true
