-- Ends the permits and the tickets that a process has at a key, up to a number of its ids. Ids that are in use stay. Harmless
-- when repeated.
--   KEYS 1 holder  2 queue of permits  3 tickets for permits  4 fencing counter
--   ARGV 1 stem of the ids of the process  2 the greatest number that ends  3 and on  ids that stay
--   returns 1  done      2  done, and a poll is to be run immediately
-- Rules 3, 5, 13 and 26 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@limits
--@publish
--@fence
--@permits
--@disowned
local tickets = {ARGV[1]} -- which is none: if there is no other, this removes what an earlier run has left
add_disowned(tickets, KEYS[2])
drop_ticket(unpack(tickets)) -- a full memory refuses neither this write nor those after it
if type(redis.pcall('HLEN', KEYS[1])) ~= 'number' then return 1 end
local p = read_permits()
if p.err then return 1 end
local more = reap_permits(p)
local fields = call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local id = string.match(fields[i], '^p:(.*)$')
  local q = is_disowned(id) and parse_permit(fields[i + 1])
  if q and q.ends > now_ms then end_permit(p, id, q, 0) end
end
more = settle_permits(p) or more
tidy_permits(p)
return more and 2 or 1
