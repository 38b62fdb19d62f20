-- Deletes an old key, or keeps it for the rest of a minimum hold.
--   KEYS[1] old key   ARGV[1] value   ARGV[2] how long to keep it in ms, 0: delete it
--   returns 1 released · 0 the key is gone · -1 it has another value
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then
  return value and -1 or 0
end
if tonumber(ARGV[2]) > 0 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('DEL', KEYS[1])
