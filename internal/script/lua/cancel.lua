-- Ends an id, whether it is queued, holds the lock, or its acquire has yet to arrive, and those to whom its hold was
-- passed. Harmless when repeated.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers
--        6 done mark of the id  7 kept place: both only if the arguments ask for them
--   ARGV 1 id  2 for how long the id is refused from now on (ms), 0: not at all
--        3 for how long its place in the queue is kept (ms), 0: not at all; if negative, for how long the
--          place is marked as over if the id held the lock or the place is older than its hold
--        may follow: 4 the token of the hold, which tells that, or 0
--        may follow: 5 and on  ids of the run of its hold, which were served
--   returns 1  done      2  done, and a poll is to be run at once
-- Rules 2, 3, 11 and 25 of docs/protocol.md.
--@quarantine
--@fast_cancel
local fence = KEYS[4]
--@limits
--@fence
--@hold
--@readers
--@publish
--@run
--@settle
local place = redis.pcall('ZSCORE', KEYS[2], ARGV[1])
local ids, after = {ARGV[1]}
for i = 5, #ARGV do ids[#ids + 1] = ARGV[i] end
remove_ticket(unpack(ids)) -- all of them before somebody is granted the lock
for _, id in ipairs(ids) do after = end_hold(id) or after end
if ARGV[2] ~= '0' then call('SET', KEYS[6], 1, 'PX', ARGV[2]) end
end_place(KEYS[7], tonumber(ARGV[3]), place, after == 'write', ARGV[4])
return settle(after) and 2 or 1
