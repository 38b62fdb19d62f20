-- Takes the hash of a Redisson lock. A command that is executed twice succeeds twice, and counts one hold.
--   KEYS[1] name of the lock   ARGV[1] field of the holder   ARGV[2] lease in ms
--   returns 0 taken · >0 taken by another holder, for that many ms · -1 the same, without an end
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  local left = redis.call('PTTL', KEYS[1])
  return left == 0 and 1 or left
end
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
