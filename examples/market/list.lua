-- Puts an item into the market if its seller owns it.
--   KEYS[1] market   KEYS[2] the seller's inventory
--   ARGV[1] item     ARGV[2] member of the market   ARGV[3] price
--   returns 1 listed · 0 not owned
if redis.call('SREM', KEYS[2], ARGV[1]) == 0 then
  return 0
end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2])
return 1
