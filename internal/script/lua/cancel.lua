-- Ends an id, whether it is queued, holds a lock or a permit, or its acquire has not arrived yet. Also ends the ids to which
-- its hold was passed. A repeated execution does no harm.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 and 6 see acquire.lua
--        7 done mark of the id  8 kept place: both only if the arguments need them
--   ARGV 1 id  2 TTL of its done mark (ms), 0 for no mark
--        3 how long its place in the queue is kept (ms), 0 for not at all. If negative: how long the mark that ends the place
--          stays (ms); it is written only if the place is less than ARGV 4
--        optional: 4 token of the hold that the id had, or 0
--        optional: 5 and later  ids of its grant batch that were served
--   returns 1  done      2  done, and a poll must follow immediately
-- Rules 2, 3, 11, 25 and 26 of docs/protocol.md.
--@quarantine
--@fast_cancel_{kind}
local fence = KEYS[4]
--@{kind}
--@places
local place = redis.pcall('ZSCORE', KEYS[2], ARGV[1])
local ids, after = {ARGV[1], unpack(ARGV, 5)}, nil
remove_ticket(unpack(ids)) -- all of them before the next grant; a full memory refuses no write after this one
for _, id in ipairs(ids) do
  local _, freed = end_hold(id)
  after = freed or after
end
if ARGV[2] ~= '0' then call('SET', KEYS[7], 1, 'PX', ARGV[2]) end
local keep = tonumber(ARGV[3])
local kept = keep ~= 0 and read_kept_place(KEYS[8]) -- another call may have used the place since, and may have a newer one or none
if keep < 0 and kept and kept < tonumber(ARGV[4]) then
  write_kept_place(KEYS[8], 0, -keep)
elseif keep > 0 and type(place) == 'string' and (kept == false or kept == tonumber(place)) then
  write_kept_place(KEYS[8], place, keep)
end
return grant_next(after) and 2 or 1
