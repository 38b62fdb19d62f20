-- Renews the lease of an old key. It never makes a key: another holder may have come and gone since the key was lost.
--   KEYS[1] old key   ARGV[1] value   ARGV[2] lease in ms
--   returns 1 renewed · 0 the key is gone · -1 it has another value
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return value and -1 or 0
