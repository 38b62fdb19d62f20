-- Ends one hold and grants the lock or the permit to the next live ticket. Those to whom the hold was passed leave the queue before
-- that. Harmless when repeated.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 and 6 see acquire.lua
--        7 done mark of the id  8 kept place: both only if the arguments ask for them
--   ARGV 1 id
--        may follow: 2 for how long the key stays taken (ms), 0: not at all
--        3 for how long the id is marked as over (ms), because copies of its acquire may still arrive, 0: not
--          at all      4 for how long its kept place is marked as over (ms), 0: not at all
--        may follow: 5 and on  ids of the run of the hold, which were served
--   returns 1  released      2  released, and a poll is to be run at once      0  not held by this id
-- Rules 2, 5, 6, 25 and 26 of docs/protocol.md.
--@quarantine
local call, fence = redis.call, KEYS[4]
--@fast_release_{kind}
--@{kind}
local h = ARGV[5] and redis.pcall('HMGET', KEYS[1], 'id', 'reader:' .. ARGV[1])
if h and (h[1] == ARGV[1] or h[2]) then remove_ticket(unpack(ARGV, 5)) end
local ended, freed = end_hold(ARGV[1], ARGV[2])
if not ended then
  --+not_held
  return 0
end
do
  --+mark_over
end
return freed and settle(freed) and 2 or 1
