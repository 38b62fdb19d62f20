-- Reserves one item for a user.
--   KEYS[1] remaining stock   KEYS[2] set of buyers   ARGV[1] user   returns 1 reserved · 0 sold out · -1 has one already
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return -1 end
if tonumber(redis.call('GET', KEYS[1]) or '0') < 1 then return 0 end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
return 1
