-- Takes a free lock, or takes it again for its owner.
--   KEYS[1] hash of the lock   ARGV[1] owner   ARGV[2] lease in ms   returns 1 taken · 0 busy
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
