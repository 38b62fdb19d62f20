-- Part of release.lua: the fast path for the usual release of a lock that is held alone. No ticket waits, or the first ticket
-- of the queue wants the lock alone and its process was seen just now. It defines no function that is not called, and numbers
-- stay strings. A 'break' leaves all other cases to the rest of the script.
local queued = (ARGV[2] or '0') == '0' and redis.pcall('HGET', KEYS[1], 'id') == ARGV[1] and redis.pcall('ZCARD', KEYS[2])
if queued == 0 then
  call('DEL', KEYS[1])
  --+mark_over
  return 1
end
--@limits
--@publish
--@grant_batch
if type(queued) == 'number' and (not ARGV[2] or ARGV[3] == '0' and ARGV[4] == '0') then repeat
  if ARGV[5] then -- the only write that may precede the rest, which would do it as well
    redis.pcall('HDEL', KEYS[3], unpack(ARGV, 5))
    queued = queued - call('ZREM', KEYS[2], unpack(ARGV, 5))
    if queued == 0 then break end
  end
  local ids = call('ZRANGE', KEYS[2], '0', '1')
  local head, second = ids[1], ids[2]
  -- A single ticket that does not stand for the waiting readers means that no reader waits.
  if not may_grant() or head == '#readers' or second and call('EXISTS', KEYS[5]) == 1 then break end
  local t = redis.pcall('HMGET', KEYS[3], head, second or head)
  if not t[1] then break end
  local mode, wanted, flags, secret, inbox, owner, since, calls, trace =
    string.match(t[1], '^([^ ]+) [^ ]+ (%d+)(%l*):?([^ ]*) ([^ ]+) ([^ ]+) (%d+)%*?(%d*) ?([^ ]*)$')
  if not mode or #wanted > 15 or #calls > 15 then break end
  --+clock
  --+was_seen

  local others, first, count, batch = queued - 1, now, 1, flags == 'r' and find_grant_batch(t[1], second, t[2]) or {}
  if wanted ~= '1' or #batch > 0 then
    count = math.max(1, math.min(wanted + #batch, now - last))
    first = string.format('%.0f', now - count + 1)
    for i = #batch, count, -1 do batch[i] = nil end -- there is no token for these
  end
  if others > 0 then
    call('DEL', KEYS[1])
    call('ZREM', KEYS[2], head)
    call('HDEL', KEYS[3], head)
  else
    call('DEL', KEYS[1], KEYS[2], KEYS[3])
  end
  call('SET', fence, now)
  local key, id, lease, token, since, waits, calls = KEYS[1], head, ACCEPT, first, count > 1 and now, others > 0, tonumber(calls) or 1
  --+holder_fields
  --+holder
  local message = 'grant ' .. table.concat({head, unpack(batch)}, ',') .. ' ' .. first .. ' ' .. first .. ' ' .. count .. ' ' .. others .. ' ' .. KEYS[1]
  publish(inbox, prove(message, secret))
  return 1
until true end
