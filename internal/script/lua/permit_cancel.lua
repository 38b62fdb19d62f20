-- Ends an id, whether it is queued, has a permit, or its acquire has yet to arrive. Harmless when repeated.
--   KEYS 1 holder  2 queue of permits  3 tickets for permits  4 fencing counter
--        5 done mark of the id  6 kept place: both only if the arguments ask for them
--   ARGV 1 id  2 for how long the id is refused from now on (ms), 0: not at all
--        3 for how long its place in the queue is kept (ms), 0: not at all; if negative, for how long the
--          place is marked as over if the id had a permit or the place is older than its hold
--        may follow: 4 the token of the hold, which tells that
--   returns 1  done      2  done, and a poll is to be run at once
-- Rules 2, 3, 11 and 26 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@limits
--@publish
--@fence
--@permits
local place = redis.pcall('ZSCORE', KEYS[2], ARGV[1])
drop_ticket(ARGV[1]) -- a full memory refuses neither this write nor those after it
local is_hash = type(redis.pcall('HLEN', KEYS[1])) == 'number'
local p = is_hash and read_permits()
local ours = p and not p.err
local q, more = nil, false
if ours then
  more = reap_permits(p)
  q = read_permit(ARGV[1])
  if q then end_permit(p, ARGV[1], q, 0) end
end
if ARGV[2] ~= '0' then call('SET', KEYS[5], 1, 'PX', ARGV[2]) end
end_place(KEYS[6], tonumber(ARGV[3]), place, q ~= nil, ARGV[4])
if not ours then return 1 end
more = settle_permits(p) or more
tidy_permits(p)
return more and 2 or 1
