-- Takes the hash of a Redisson lock. A command that is executed twice succeeds twice, and counts one hold.
--   KEYS[1] name of the lock   ARGV[1] field of the holder   ARGV[2] lease in ms
--   returns 0 taken · >0 taken by another holder, for that many ms · -1 the same, without an end
local left = redis.call('PTTL', KEYS[1])
if left ~= -2 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return left == 0 and 1 or left
end
redis.call('HDEL', KEYS[1], ARGV[1]) -- a full Redis refuses only a first write; the lock of lockmw could be taken
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
