  -- Part of scripts that grant to the first ticket in less time: its process has shown that it lives just now. It has queued the
  -- ticket, or has beaten.
  local seen = string.sub(since, 1, 13)
  if #since ~= 16 or now_ms - seen > RECENT or seen > now_ms then
    seen = string.match(redis.pcall('HGET', KEYS[6], inbox) or '', '^[+-](%d+)$')
    if not seen or #seen ~= 13 or now_ms - seen > RECENT then break end
  end
