-- Part of acquire.lua: the fast path into the queue in the usual case. The caller wants the lock alone, another id holds it
-- alone, and the ticket goes behind all others. It does the same as the rest of the script, but defines no function, and
-- numbers stay strings. A 'break' leaves all other cases to the rest, before the first write.
repeat
  -- Either only the holder exists, or the holder, the queue and the tickets. So no reader waits, and the id has no done mark.
  local others = existing == 3
  if existing ~= 1 and not others then break end
  local id, mode, trace = ARGV[1], ARGV[6] or 'exclusive', ARGV[8] or ''
  if ARGV[5] == '0' or (ARGV[9] and ARGV[9] ~= '') then break end
  if ARGV[11] and (ARGV[11] ~= '' or ARGV[12] ~= '' or ARGV[14] ~= '0') then break end -- a predecessor, or a kept place

  --+busy
  if h[1] == id then break end
  if call('ZADD', KEYS[2], 'NX', now, id) == 0 then break end -- it already has a ticket
  local ticket = mode .. ' ' .. ARGV[2] .. ' ' .. ARGV[5] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. now .. (ARGV[15] and ARGV[15] ~= '1' and '*' .. ARGV[15] or '') .. ' ' .. trace
  call('HSET', KEYS[3], id, ticket)
  local length = others and call('ZCARD', KEYS[2]) or 1
  --+after_queueing
  return {0, last + 0, length, length, now + 0, ttl, now, h[2] or '', h[4], token + 0, since + 0, h[6] or ''}
until true
