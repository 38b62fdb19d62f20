  -- Part of the loops of fast_queue.lua and queue_batch.lua. It leaves the loop unless the state is the usual one: a hold
  -- excludes all others, and the tickets, if there are any, wait in one queue.
  local h = call('HMGET', KEYS[1], 'id', 'owner', 'token', 'inbox', 'since', 'trace', 'mode', 'tokens', 'wanted')
  local token, since, shared = h[3], h[5] or h[3], h[8] or '1'
  if not h[1] or h[1] == '-' or not h[4] or not token or h[7] == 'read' then break end
  local tail = ''
  if others then
    if call('ZSCORE', KEYS[2], '#readers') then break end
    call('HLEN', KEYS[3]) -- an error of type must come before the first write
    tail = call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2]
    if not tail or #tail ~= 16 then break end
  end
  local ttl = call('PTTL', KEYS[1])
  if ttl < 0 then break end

  --+clock
  if #token ~= 16 or #since ~= 16 or #shared > 15 or string.find(token .. since .. tail .. shared, '%D') then break end
  if token > '9' or since > '9' or tail >= now or shared == '' or shared + 0 < 1 then break end
