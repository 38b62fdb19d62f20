  -- Part of the loops of fast_queue.lua and queue_batch.lua: the steps after the tickets are written.
  if not others then
    call('PEXPIRE', KEYS[2], QUEUE_TTL)
    call('PEXPIRE', KEYS[3], QUEUE_TTL)
  end
  if h[9] ~= '1' then
    redis.pcall('HSET', KEYS[1], 'wanted', '1') -- a full memory may refuse it
    if call('PTTL', KEYS[1]) == -1 then call('DEL', KEYS[1]) end -- on an embedded server it has just expired
  end
  if shared ~= '1' and (h[7] or 'exclusive') == 'exclusive' then publish(h[4], 'contended ' .. h[1]) end
