-- Deletes the hash of a Redisson lock and wakes the calls of Redisson that wait for it, or keeps the hash for the rest of a
-- minimum hold. Redisson listens to a sharded channel in a Cluster that has them, and to a plain channel otherwise.
--   KEYS[1] name of the lock   ARGV[1] field of the holder   ARGV[2] how long to keep it in ms, 0: delete it
--   returns 1 released · 0 the lock is gone · -1 another holder has it
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -redis.call('EXISTS', KEYS[1])
end
if tonumber(ARGV[2]) > 0 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.call('DEL', KEYS[1])
local channel = KEYS[1]
if not string.find(channel, '{', 1, true) then
  channel = '{' .. channel .. '}'
end
channel = 'redisson_lock__channel:' .. channel
redis.pcall('PUBLISH', channel, '0')
redis.pcall('SPUBLISH', channel, '0')
return 1
