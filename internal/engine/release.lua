-- Ends one hold and passes the lock to the next live ticket.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 done mark of the id
--   ARGV 1 id  2 how long the key stays taken (ms), 0: not at all
--        3 how long the id is marked as over (ms), because copies of its acquire may still be on
--          their way; 0 if there can be none
--   returns {1, more}  released; more is 1 if a poll is to be run at once      {0}  not held by this id
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then return {0} end
if ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('HSET', KEYS[1], 'id', '-', 'tokens', 1) -- nobody's: it only expires
else
  redis.call('DEL', KEYS[1])
end
if ARGV[3] ~= '0' then redis.call('SET', KEYS[5], 1, 'PX', ARGV[3]) end
if redis.call('EXISTS', KEYS[2]) == 0 then return {1, 0} end
--@hold
--@settle
return {1, settle() and 1 or 0}
