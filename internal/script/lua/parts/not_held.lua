  -- The hold is not here. This write changes nothing, but a replica that does not have the hold refuses it. So a caller that is
  -- still connected to a deposed master gets that error, and not the answer that its lock is lost.
  local refused = redis.pcall('HDEL', KEYS[1], '')
  if type(refused) == 'table' and not string.find(refused.err, 'WRONGTYPE', 1, true) then return refused end
