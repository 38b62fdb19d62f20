-- Part of acquire.lua: the usual way into the queue. A caller that wants the lock for itself meets another that has it,
-- and gets a ticket behind those that wait. It does what the rest of the script does, in less time: no
-- function is defined, and digits stay strings. Whatever is not usual is left to the rest, before the first write.
-- A 'break' leaves it to the rest.
repeat
  -- There are a holder and no queue, or both and the tickets. So nobody waits to read, and the id is not over.
  local others = there == 3
  if there ~= 1 and not others then break end
  local id, mode, trace = ARGV[1], ARGV[6] or 'exclusive', ARGV[8] or ''
  local queued = ARGV[5]
  if queued == '0' or (ARGV[9] and ARGV[9] ~= '') then break end
  if ARGV[11] and (ARGV[11] ~= '' or ARGV[12] ~= '' or ARGV[14] ~= '0') then break end -- a predecessor, or a place

  --+busy
  if h[1] == id then break end
  if call('ZADD', KEYS[2], 'NX', now, id) == 0 then break end -- it has a ticket already
  local ticket = mode .. ' ' .. ARGV[2] .. ' ' .. queued .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. now .. (ARGV[15] and ARGV[15] ~= '1' and '*' .. ARGV[15] or '') .. ' ' .. trace
  local length = 1
  call('HSET', KEYS[3], id, ticket)
  if others then
    length = call('ZCARD', KEYS[2])
  end
  --+after_queueing
  return {0, last + 0, length, length, now + 0, ttl, now, h[2] or '', h[4], token + 0, since + 0, h[6] or ''}
until true
