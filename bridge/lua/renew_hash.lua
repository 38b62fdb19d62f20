-- Renews the lease of a Redisson lock. It never makes a hash.
--   KEYS[1] name of the lock   ARGV[1] field of the holder   ARGV[2] lease in ms
--   returns 1 renewed · 0 the lock is gone · -1 another holder has it
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return -redis.call('EXISTS', KEYS[1])
