-- Takes an old key that is a string. A command that is executed twice succeeds twice.
--   KEYS[1] old key   ARGV[1] value   ARGV[2] lease in ms
--   returns 0 taken · >0 taken by another value, for that many ms · -1 the same, without an end
local left = redis.call('PTTL', KEYS[1])
if left == -2 then
  redis.call('DEL', KEYS[1]) -- a full Redis refuses only a first write; the lock of lockmw could be taken
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 0
end
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 0
end
return left == 0 and 1 or left
