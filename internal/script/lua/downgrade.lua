-- Makes a write hold a read hold with the same id, and admits all tickets that wait to read. No writer comes
-- in between. Harmless when repeated.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers  6 see alive.lua      ARGV 1 id
--   returns 1  done      2  done, and a poll is to be run at once      0  not held by this id
-- Rule 12 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@{kind}
local h = read_hold()
if h and h.err then return h end
if h and h.mode == 'read' and extend_reader(ARGV[1], 1) then
  drop_other_fields() -- an earlier run may have ended before it did
  return 1
end
if not h or h.id ~= ARGV[1] then
  --+not_held
  return 0
end
-- The hash is changed in place: in a slot that moves, a Cluster ends a script that asks for a key which it has deleted.
local lease = call('PTTL', KEYS[1])
if lease < 0 then lease = ACCEPT end -- somebody took the TTL off: until the next renewal
lease = math.max(lease, 1)
if call('PEXPIRE', KEYS[1], lease) == 0 then return 0 end -- a full memory refuses neither this write nor those after it
add_reader(h.id, h.token + h.tokens - 1, lease, h.inbox, h.owner, h.trace, true)
drop_other_fields()
local queued = redis.pcall('ZCARD', KEYS[2])
if type(queued) == 'table' or queued == 0 then return 1 end
set_field(try_write, 'wanted', count_writers() > 0 and 1 or 0)
if not may_grant() then return 1 end
local _, more = admit_readers()
return more and 2 or 1
