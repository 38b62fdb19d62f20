-- Releases a lock once for its owner, who may have taken it several times.
--   KEYS[1] hash of the lock   ARGV[1] owner   ARGV[2] lease in ms   returns how often the owner still holds it
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local left = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if left > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
return left
