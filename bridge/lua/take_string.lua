-- Takes an old key that is a string. A command that is executed twice succeeds twice.
--   KEYS[1] old key   ARGV[1] value   ARGV[2] lease in ms
--   returns 0 taken · >0 taken by another value, for that many ms · -1 the same, without an end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 0
end
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 0
end
local left = redis.call('PTTL', KEYS[1])
return left == 0 and 1 or left
