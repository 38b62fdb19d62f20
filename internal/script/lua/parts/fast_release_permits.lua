--@limits
--@publish
-- Part of release.lua: the fast path for the usual hand-over of a permit. All permits are taken, a permit of weight 1 is
-- released, and the first ticket of the queue, whose process was seen just now, gets it with its slot. It does the same as the
-- rest of the script, but defines no function, and numbers stay strings. A 'break' leaves all other cases to the rest, before
-- the first write.
if ARGV[2] == '0' and ARGV[3] == '0' and ARGV[4] == '0' then repeat
  local field = 'p:' .. ARGV[1]
  local f = redis.pcall('HMGET', KEYS[1], 'mode', 'used', 'map', 'next', 'last', field)
  local used, map, first_end, last_end = f[2], f[3], f[4], f[5]
  if f[1] ~= 'permit' or not used or not map or not first_end or not last_end or not f[6] then break end
  local ends, slot = string.match(f[6], '^(%d+) %d+ %d+ %d+ 1 (%d+) [^ ]* [^ ]* ?[^ ]*$')
  if not ends or #ends ~= 13 or slot ~= '' .. slot + 0 or #first_end ~= 13 or #last_end ~= 13 or string.find(first_end .. last_end, '%D') then break end
  if used ~= '' .. #map or string.find(map, '[^1]') or slot + 0 >= #map or not may_grant() then break end
  --+clock
  if now_ms >= first_end or now_ms >= ends then break end -- a permit may have ended

  local line = redis.pcall('ZRANGE', KEYS[2], '0', '1')
  local head, second = line[1], line[2]
  if not head then break end
  local t = redis.pcall('HMGET', KEYS[3], head, second or head)
  if not t[1] or not t[2] then break end
  local w, secret, inbox, owner, since, n, trace = string.match(t[1], '^[^ ]+ [^ ]+ (%d+):?([^ ]*) ([^ ]+) ([^ ]+) (%d+)[^ ]* (%d+) ?([^ ]*)$')
  if w ~= '1' or n ~= used then break end
  --+was_seen
  if second then
    local text = t[2]
    --+must_wait
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
  if used == '1' or ends < first_end then first_end = ends end
  if used == '1' or ends > last_end then last_end = ends end
  -- One write, so that the weight that is taken is right wherever the script is cut off.
  call('HSET', KEYS[1], field, '', 'next', first_end, 'last', last_end, 'p:' .. head,
    ends .. ' ' .. now .. ' ' .. now .. ' ' .. n .. ' 1 ' .. slot .. ' ' .. inbox .. ' ' .. owner .. ' ' .. trace)
  call('HDEL', KEYS[1], field)
  call('PEXPIRE', KEYS[1], math.max(last_end - now_ms, others > 0 and QUEUE_TTL or 1000))
  publish(inbox, prove('permit ' .. head .. ' ' .. now .. ' ' .. slot .. ' ' .. others .. ' ' .. KEYS[1], secret))
  return 1
until true end
