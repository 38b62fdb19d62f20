-- Ends an id, whether it is queued, holds the lock, or its acquire has yet to arrive.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 done mark of the id
--   ARGV 1 id  2 how long the id is refused from now on (ms), 0: not at all
--   returns {1, more}; more is 1 if a poll is to be run at once
--@hold
--@settle
local h = holder()
if h and h.err then h = false end -- somebody else's key: nothing of ours to end there
drop(ARGV[1])
if h and h[1] == ARGV[1] then redis.call('DEL', KEYS[1]) end
if ARGV[2] ~= '0' then redis.call('SET', KEYS[5], 1, 'PX', ARGV[2]) end
return {1, settle() and 1 or 0}
