-- Ends an id, whether it is queued, holds the lock or a permit, or its acquire has yet to arrive, and those to whom its hold was
-- passed. Harmless when repeated.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 and 6 see acquire.lua
--        7 done mark of the id  8 kept place: both only if the arguments ask for them
--   ARGV 1 id  2 for how long the id is refused from now on (ms), 0: not at all
--        3 for how long its place in the queue is kept (ms), 0: not at all; if negative, for how long the
--          place is marked as over if it is older than the hold that the id had
--        may follow: 4 the token of the hold, which tells that, or 0
--        may follow: 5 and on  ids of the run of its hold, which were served
--   returns 1  done      2  done, and a poll is to be run at once
-- Rules 2, 3, 11, 25 and 26 of docs/protocol.md.
--@quarantine
--@fast_cancel_{kind}
local fence = KEYS[4]
--@{kind}
local place = redis.pcall('ZSCORE', KEYS[2], ARGV[1])
local ids, after = {ARGV[1], unpack(ARGV, 5)}, nil
remove_ticket(unpack(ids)) -- all of them before somebody is granted the lock; a full memory refuses no write after this
for _, id in ipairs(ids) do
  local _, freed = end_hold(id)
  after = freed or after
end
if ARGV[2] ~= '0' then call('SET', KEYS[7], 1, 'PX', ARGV[2]) end
end_place(KEYS[8], tonumber(ARGV[3]), place, ARGV[4])
return settle(after) and 2 or 1
