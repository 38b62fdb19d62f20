-- Hands over an item and the money for it, if the item is still offered at that price and the buyer can pay.
--   KEYS[1] market   KEYS[2] the buyer's account   KEYS[3] the seller's account   KEYS[4] the buyer's inventory
--   ARGV[1] item     ARGV[2] member of the market   ARGV[3] price
--   returns 1 bought · 0 sold already, or too expensive
local price = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not price or tonumber(price) ~= tonumber(ARGV[3])
    or tonumber(redis.call('HGET', KEYS[2], 'funds')) < tonumber(price) then
  return 0
end
redis.call('HINCRBY', KEYS[3], 'funds', ARGV[3])
redis.call('HINCRBY', KEYS[2], 'funds', '-' .. ARGV[3])
redis.call('SADD', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[2])
return 1
