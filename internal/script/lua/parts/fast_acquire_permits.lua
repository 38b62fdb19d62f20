--@permits_shown
-- Part of acquire.lua: the fast path into the queue for permits in the usual case, in which there is no room for the permit,
-- and its ticket goes behind all others. It does the same as the rest of the script, but defines few functions, and numbers
-- stay strings. A 'break' leaves all other cases to the rest, before the first write.
repeat
  local id, n, w = ARGV[1], ARGV[9], ARGV[7]
  if ARGV[11] or ARGV[5] == '0' then break end -- a predecessor, a kept place, or no ticket wanted
  local f = call('HMGET', KEYS[1], 'mode', 'used', 'map', 'next', 'last', 'p:' .. id)
  local used, first_end, last_end = f[2], f[4], f[5]
  if f[1] ~= 'permit' or not used or not f[3] or not first_end or not last_end or f[6] then break end
  if #used > 15 or #first_end ~= 13 or #last_end ~= 13 or string.find(used .. first_end .. last_end, '%D') then break end
  if used == '' or call('EXISTS', KEYS[7]) == 1 or call('ZSCORE', KEYS[2], id) then break end

  --+clock
  local tail = call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2]
  if now_ms >= first_end then break end -- a permit may have ended
  if tail then
    if #tail ~= 16 or string.find(tail, '%D') or tail >= now then break end
    local head = call('ZRANGE', KEYS[2], '0', '0')[1]
    local text = call('HGET', KEYS[3], head) or ''
    --+must_wait
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
  call('PEXPIRE', KEYS[1], math.max(last_end - now_ms, QUEUE_TTL))
  local length = call('ZCARD', KEYS[2])
  return {4, last + 0, length, length, now + 0, show_permits(first_end, now_ms, now)}
until true
