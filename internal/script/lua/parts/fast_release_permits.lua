--@limits
--@publish
-- Part of release.lua: the fast path for the usual hand-over of a permit. All permits are taken, a permit of weight 1 is
-- released, and the first ticket of the queue, whose process was seen just now, gets it with its slot. It does the same as the
-- rest of the script, but defines no function, and numbers stay strings. A 'break' leaves all other cases to the rest, before
-- the first write.
if ARGV[2] == '0' and ARGV[3] == '0' and ARGV[4] == '0' then repeat
  local field = 'p:' .. ARGV[1]
  local f = redis.pcall('HMGET', KEYS[1], 'mode', 'used', 'map', 'next', 'last', field)
  local used, map, next, last = f[2], f[3], f[4], f[5]
  if f[1] ~= 'permit' or not used or not map or not next or not last or not f[6] then break end
  local ends, slot = string.match(f[6], '^(%d+) %d+ %d+ %d+ 1 (%d+) [^ ]* [^ ]* ?[^ ]*$')
  if not ends or #ends ~= 13 or slot ~= '' .. slot + 0 or #next ~= 13 or #last ~= 13 or string.find(next .. last, '%D') then break end
  if used ~= '' .. #map or string.find(map, '[^1]') or slot + 0 >= #map or not may_grant() then break end

  -- The clock is ahead of all tokens, which have 16 digits, and no permit has ended.
  local counter, time = redis.pcall('GET', fence), call('TIME')
  local now = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  if type(counter) ~= 'string' or #counter ~= 16 or #now ~= 16 or string.find(counter, '%D') or counter >= now then break end
  local now_ms = string.sub(now, 1, 13)
  if now_ms >= next or now_ms >= ends then break end

  local line = redis.pcall('ZRANGE', KEYS[2], '0', '1')
  local head, second = line[1], line[2]
  if not head then break end
  local t = redis.pcall('HMGET', KEYS[3], head, second or head)
  if not t[1] or not t[2] then break end
  local w, secret, inbox, owner, since, n, trace = string.match(t[1], '^[^ ]+ [^ ]+ (%d+):?([^ ]*) ([^ ]+) ([^ ]+) (%d+)[^ ]* (%d+) ?([^ ]*)$')
  if w ~= '1' or n ~= used then break end
  --+was_seen
  if second then -- its process is also alive, and there is no room for its permit
    local second_w, inbox, since, second_n = string.match(t[2], '^[^ ]+ [^ ]+ (%d+):?[^ ]* ([^ ]+) [^ ]+ (%d+)[^ ]* (%d+) ?[^ ]*$')
    if not second_w or second_w + 0 < 1 or second_w + 0 > second_n + 0 or second_n + 0 > MAX_PERMITS or used + second_w <= second_n + 0 then break end
    --+was_seen
  end

  local others = call('ZCARD', KEYS[2]) - 1
  if others > 0 then
    call('ZREM', KEYS[2], head)
    call('HDEL', KEYS[3], head)
  else
    call('DEL', KEYS[2], KEYS[3])
  end
  call('SET', fence, now)
  ends = string.format('%.0f', now_ms + ACCEPT)
  if used == '1' then
    next, last = ends, ends
  else
    if ends < next then next = ends end
    if ends > last then last = ends end
  end
  -- One write, so that the weight that is taken is right wherever the script is cut off.
  call('HSET', KEYS[1], field, '', 'next', next, 'last', last, 'p:' .. head,
    ends .. ' ' .. now .. ' ' .. now .. ' ' .. n .. ' 1 ' .. slot .. ' ' .. inbox .. ' ' .. owner .. ' ' .. trace)
  call('HDEL', KEYS[1], field)
  call('PEXPIRE', KEYS[1], math.max(last - now_ms, others > 0 and QUEUE_TTL or 1000))
  publish(inbox, prove('permit ' .. head .. ' ' .. now .. ' ' .. slot .. ' ' .. others .. ' ' .. KEYS[1], secret))
  return 1
until true end
