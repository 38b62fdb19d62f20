  -- Part of release.lua: writes the done mark of the id, and the mark that ends its kept place.
  if ARGV[3] and ARGV[3] ~= '0' then call('SET', KEYS[7], 1, 'PX', ARGV[3]) end
  local kept = ARGV[4] and ARGV[4] ~= '0' and redis.pcall('GET', KEYS[8])
  if type(kept) == 'string' and not string.find(kept, '%D') then call('SET', KEYS[8], 0, 'PX', ARGV[4]) end
