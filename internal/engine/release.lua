-- Ends one hold and passes the lock to the next live ticket.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 done mark of the id, if it is to be marked
--        as over, because copies of its acquire may still be on their way
--   ARGV 1 id  or, in addition: 2 how long the key stays taken (ms), 0: not at all
--        3 how long the id is marked as over (ms)
--   returns 1  released      2  released, and a poll is to be run at once      0  not held by this id
local call = redis.call
if call('HGET', KEYS[1], 'id') ~= ARGV[1] then return 0 end
local linger = ARGV[2] or '0'
if linger ~= '0' then
  call('PEXPIRE', KEYS[1], linger)
  call('HSET', KEYS[1], 'id', '-', 'tokens', 1) -- nobody's: it only expires
else
  call('DEL', KEYS[1])
end
if KEYS[5] then call('SET', KEYS[5], 1, 'PX', ARGV[3]) end
if linger ~= '0' then return 1 end
local queued = call('ZCARD', KEYS[2])
if queued == 0 then return 1 end
local fence = KEYS[4]
--@hold
--@settle
return settle(queued) and 2 or 1
