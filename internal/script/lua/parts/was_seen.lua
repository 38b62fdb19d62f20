  -- Part of the fast paths that grant to the first ticket: its process has shown recently that it is alive. It has queued the
  -- ticket or sent a beat.
  local seen = string.sub(since, 1, 13)
  if #since ~= 16 or now_ms - seen > RECENT or seen > now_ms then
    seen = string.match(redis.pcall('HGET', KEYS[6], inbox) or '', '^[+-](%d+)$')
    if not seen or #seen ~= 13 or now_ms - seen > RECENT then break end
  end
