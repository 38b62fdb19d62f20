-- Ends an id, whether it is queued, holds the lock, or its acquire has yet to arrive.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 done mark of the id, if it is to be refused
--   ARGV 1 id  2 how long it is refused from now on (ms)
--   returns 1  done      2  done, and a poll is to be run at once
local fence = KEYS[4]
--@hold
--@settle
local held = redis.pcall('HGET', KEYS[1], 'id') -- an error if the key is somebody else's
if held == ARGV[1] then call('DEL', KEYS[1]) end
drop(ARGV[1])
if KEYS[5] then call('SET', KEYS[5], 1, 'PX', ARGV[2]) end
return settle() and 2 or 1
