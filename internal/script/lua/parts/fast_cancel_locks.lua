-- Part of cancel.lua: the fast path for the usual cancel. The ids have tickets or nothing, another id holds the lock alone, and
-- no reader waits. It does the same as the rest of the script, but defines no function. A 'break' leaves all other cases to the
-- rest, before the first write.
repeat
  local h = redis.pcall('HMGET', KEYS[1], 'id', 'mode')
  if not h[1] or h[2] == 'read' or ARGV[3] ~= '0' or redis.call('EXISTS', KEYS[5]) == 1 then break end
  local ids, holds = {ARGV[1], unpack(ARGV, 5)}, false
  for _, id in ipairs(ids) do holds = holds or id == h[1] end
  if holds then break end
  if type(redis.pcall('ZREM', KEYS[2], unpack(ids))) ~= 'number' then break end -- it was refused
  local gone = redis.pcall('HDEL', KEYS[3], unpack(ids))
  if type(gone) == 'number' and redis.call('EXISTS', KEYS[2]) == 0 then redis.call('DEL', KEYS[3]) end
  if ARGV[2] ~= '0' then redis.call('SET', KEYS[7], '1', 'PX', ARGV[2]) end
  return 1
until true
