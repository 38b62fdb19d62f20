  -- There is no such hold here. A replica that does not know the hold refuses this write, which changes nothing: a caller whose
  -- connection leads to a master that was deposed is not told that it has lost its lock.
  local refused = redis.pcall('HDEL', KEYS[1], '')
  if type(refused) == 'table' and not string.find(refused.err, 'WRONGTYPE', 1, true) then return refused end
