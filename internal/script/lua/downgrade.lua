-- Turns a write hold into a read hold with the same id, and admits all tickets that wait to read, with no writer in between. A
-- repeated execution does no harm.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers  6 see alive.lua      ARGV 1 id
--   returns 1  done      2  done, and a poll must follow immediately      0  the id does not hold the lock
-- Rule 12 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@{kind}
-- Removes the fields that are left over from the former write hold.
local COMMON = {mode = true, token = true, next = true, wanted = true}
local function drop_other_fields()
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    if not COMMON[fields[i]] and string.sub(fields[i], 1, 7) ~= 'reader:' then call('HDEL', KEYS[1], fields[i]) end
  end
end

local h = read_hold()
if h and h.err then return h end
if h and h.mode == 'read' and extend_reader(ARGV[1], 1) then
  drop_other_fields() -- an earlier execution may have been cut off before it did this
  return 1
end
if not h or h.id ~= ARGV[1] then
  --+not_held
  return 0
end
-- The hash is changed in place: while a slot moves, a Cluster ends a script that asks for a key that it has deleted.
local lease = call('PTTL', KEYS[1])
if lease < 0 then lease = ACCEPT end -- the TTL was removed by hand: bridge the time until the next renewal
lease = math.max(lease, 1)
if call('PEXPIRE', KEYS[1], lease) == 0 then return 0 end -- a full memory does not refuse this write or later ones
add_reader(h.id, h.token + h.tokens - 1, lease, h.inbox, h.owner, h.trace, true)
drop_other_fields()
local queued = redis.pcall('ZCARD', KEYS[2])
if type(queued) == 'table' or queued == 0 then return 1 end
set_field(try_write, 'wanted', count_writers() > 0 and 1 or 0)
if not may_grant() then return 1 end
return admit_readers() and 2 or 1
