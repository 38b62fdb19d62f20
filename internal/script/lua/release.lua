-- Ends one hold and grants the lock or permit to the next live ticket. The ids to which the hold was passed leave the queue
-- before the grant. A repeated execution does no harm.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 and 6 see acquire.lua
--        7 done mark of the id  8 kept place: both only if the arguments need them
--   ARGV 1 id
--        optional: 2 how long the key stays taken (ms), 0 for not at all
--        3 TTL of the id's done mark (ms), needed if copies of its acquire may still arrive; 0 for no mark
--        4 TTL of the mark that ends its kept place (ms), 0 for no mark
--        optional: 5 and later  ids of its grant batch that were served
--   returns 1  released      2  released, and a poll must follow immediately      0  the id does not hold the lock
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
--+mark_over
return freed and grant_next(freed) and 2 or 1
