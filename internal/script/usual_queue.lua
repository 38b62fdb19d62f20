-- Part of acquire.lua: the usual way into the queue. A caller that wants the lock for itself meets another that has it,
-- and gets a ticket behind those that wait. It does what the rest of the script does, in less time: no
-- function is defined, and digits stay strings. Whatever is not usual is left to the rest, before the first write.
-- A 'break' leaves it to the rest.
repeat
  local id, mode, trace = ARGV[1], ARGV[6] or 'exclusive', ARGV[8] or ''
  local queued = string.sub(ARGV[5], 2)
  if mode == 'read' or queued == '0' or (ARGV[9] and ARGV[9] ~= '') then break end
  if ARGV[11] and (ARGV[11] ~= '' or ARGV[12] ~= '' or ARGV[14] ~= '0') then break end -- a predecessor, or a place

  local h = call('HMGET', KEYS[1], 'id', 'owner', 'token', 'inbox', 'since', 'trace', 'mode', 'tokens', 'wanted')
  local token, since, shared = h[3], h[5] or h[3], h[8] or '1'
  if not h[1] or h[1] == id or h[1] == '-' or not h[4] or not token or h[7] == 'read' then break end
  if call('EXISTS', KEYS[5], KEYS[6]) > 0 then break end -- somebody waits to read, or the id is over
  if call('ZSCORE', KEYS[2], id) or call('ZSCORE', KEYS[2], '#readers') then break end
  local ttl = call('PTTL', KEYS[1])
  if ttl < 0 then break end

  -- Where the clock is ahead of all tokens and places, the place is the time. All of them have 16 digits.
  local last, tail = redis.pcall('GET', fence), call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2]
  if type(last) ~= 'string' then break end
  local time = call('TIME')
  local now = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  local numbers = token .. since .. last .. (tail or now)
  if #token ~= 16 or #since ~= 16 or #last ~= 16 or #numbers ~= 64 or string.find(numbers, '%D') then break end
  if token > '9' or since > '9' or last >= now or (tail and tail >= now) then break end
  if #shared > 15 or not string.find(shared, '^%d+$') or shared + 0 < 1 then break end

  -- A script has looked after the queue just now, or there is none.
  local now_ms = string.sub(now, 1, 13)
  local touched = call('HGET', KEYS[3], '#touched')
  if tail then
    if not touched or not string.find(touched, '^%d+$') or math.abs(now_ms - touched) >= POLL / 4 then break end
  elseif touched then
    break
  end

  call('ZADD', KEYS[2], now, id)
  local seen = string.sub(ARGV[5], 1, 1) .. now_ms
  if ARGV[15] and ARGV[15] ~= '1' then seen = seen .. ' ' .. ARGV[15] end
  local ticket = mode .. ' ' .. ARGV[2] .. ' ' .. queued .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. now .. ' ' .. trace
  if tail then
    call('HSET', KEYS[3], '@' .. id, seen, id, ticket)
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
  local length = call('ZCARD', KEYS[2])
  return {0, last + 0, length, length, now + 0, ttl, now, h[2] or '', h[4], token + 0, since + 0, h[6] or ''}
until true
