-- Ends one permit and grants what is free to those who wait. Harmless when repeated.
--   KEYS 1 holder  2 queue of permits  3 tickets for permits  4 fencing counter
--        5 done mark of the id  6 kept place: both only if the arguments ask for them
--   ARGV 1 id  2 for how long its slots stay taken (ms), 0: not at all
--        3 for how long the id is marked as over (ms), because copies of its acquire may still arrive, 0: not
--          at all      4 for how long its kept place is marked as over (ms), 0: not at all
--   returns 1  released      2  released, and a poll is to be run at once      0  not held by this id
-- Rules 2, 5 and 26 of docs/protocol.md.
--@quarantine
local call, fence = redis.call, KEYS[4]
--@limits
--@publish
--@fast_permit_grant
--@fence
--@permits
local p = read_permits()
if p.err or not read_permit(ARGV[1]) then return 0 end
if not keep_permits(p) then return 0 end -- a full memory refuses neither this write nor those after it
local more = reap_permits(p)
local q = read_permit(ARGV[1])
if q then end_permit(p, ARGV[1], q, tonumber(ARGV[2])) end
if ARGV[3] ~= '0' then call('SET', KEYS[5], 1, 'PX', ARGV[3]) end
if ARGV[4] ~= '0' then write_kept_place(KEYS[6], 0, ARGV[4]) end
more = settle_permits(p) or more
tidy_permits(p)
return more and 2 or 1
