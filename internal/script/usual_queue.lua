-- Part of acquire.lua: the usual way into the queue. A caller that wants the lock for itself meets another that has it,
-- and gets a ticket behind those that wait. It does what the rest of the script does, in less time: no
-- function is defined, and digits stay strings. Whatever is not usual is left to the rest, before the first write.
-- A 'break' leaves it to the rest.
repeat
  -- There are a holder and no queue, or both and the tickets. So nobody waits to read, and the id is not over.
  local others = there == 3
  if there ~= 1 and not others then break end
  local id, mode, trace = ARGV[1], ARGV[6] or 'exclusive', ARGV[8] or ''
  local queued = string.sub(ARGV[5], 2)
  if queued == '0' or (ARGV[9] and ARGV[9] ~= '') then break end
  if ARGV[11] and (ARGV[11] ~= '' or ARGV[12] ~= '' or ARGV[14] ~= '0') then break end -- a predecessor, or a place

  local h = call('HMGET', KEYS[1], 'id', 'owner', 'token', 'inbox', 'since', 'trace', 'mode', 'tokens', 'wanted')
  local token, since, shared = h[3], h[5] or h[3], h[8] or '1'
  if not h[1] or h[1] == id or h[1] == '-' or not h[4] or not token or h[7] == 'read' then break end
  local tail, touched = '', nil
  if others then
    if call('ZSCORE', KEYS[2], '#readers') then break end
    tail, touched = call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2], call('HGET', KEYS[3], '#touched')
    if not tail or not touched or #tail ~= 16 or not string.find(touched, '^%d+$') then break end
  end
  local ttl = call('PTTL', KEYS[1])
  if ttl < 0 then break end

  -- Where the clock is ahead of all tokens and places, the place is the time. All of them have 16 digits.
  local last, time = redis.pcall('GET', fence), call('TIME')
  local now = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  if type(last) ~= 'string' or #last ~= 16 or #now ~= 16 or #token ~= 16 or #since ~= 16 or #shared > 15 then break end
  if not string.find(token .. since .. last .. tail .. shared, '^%d+$') then break end
  if token > '9' or since > '9' or last >= now or tail >= now or shared + 0 < 1 then break end

  -- A script has looked after the queue just now, or there is none.
  local now_ms = string.sub(now, 1, 13)
  if others and math.abs(now_ms - touched) >= POLL / 4 then break end

  if call('ZADD', KEYS[2], 'NX', now, id) == 0 then break end -- it has a ticket already
  local seen = string.sub(ARGV[5], 1, 1) .. now_ms
  if ARGV[15] and ARGV[15] ~= '1' then seen = seen .. ' ' .. ARGV[15] end
  local ticket = mode .. ' ' .. ARGV[2] .. ' ' .. queued .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. now .. ' ' .. trace
  local length = 1
  if others then
    call('HSET', KEYS[3], '@' .. id, seen, id, ticket)
    length = call('ZCARD', KEYS[2])
  else
    call('HSET', KEYS[3], '@' .. id, seen, id, ticket, '#touched', now_ms)
    call('PEXPIRE', KEYS[2], QUEUE_TTL)
    call('PEXPIRE', KEYS[3], QUEUE_TTL)
  end
  if h[9] ~= '1' then
    redis.pcall('HSET', KEYS[1], 'wanted', '1') -- a full memory may refuse it
    if call('PTTL', KEYS[1]) == -1 then call('DEL', KEYS[1]) end -- on an embedded server it has expired just now
  end
  if shared ~= '1' and (h[7] or 'exclusive') == 'exclusive' then publish(h[4], 'contended ' .. h[1]) end
  return {0, last + 0, length, length, now + 0, ttl, now, h[2] or '', h[4], token + 0, since + 0, h[6] or ''}
until true
