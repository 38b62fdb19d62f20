  -- Part of the fast paths: the server's clock, as text of 16 digits: `now` (us) and `now_ms`. `last` is the last token. It
  -- leaves the loop unless the clock is ahead of all tokens, which also have 16 digits. So the time is the next token and place.
  local last, time = redis.pcall('GET', fence), call('TIME')
  local now = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  if type(last) ~= 'string' or #last ~= 16 or #now ~= 16 or string.find(last, '%D') or last >= now then break end
  local now_ms = string.sub(now, 1, 13)
