-- Takes a permit away from the holder that an operator has seen, and grants what is free to those who wait.
--   KEYS 1 holder  2 queue of permits  3 tickets for permits  4 fencing counter
--   ARGV 1 token  2 owner, without what about.go adds to it
--   returns 1  taken away      2  taken away, and a poll is to be run at once
--           0  not held, or by another hold
-- Rule 26 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@limits
--@publish
--@fence
--@permits
local p = read_permits()
if p.err then return p end
if p.isNew then return 0 end
keep_permits(p) -- a full memory refuses neither this write nor those after it
local more = reap_permits(p)
local fields = call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local q = string.sub(fields[i], 1, 2) == 'p:' and parse_permit(fields[i + 1])
  if q and q.ends > now_ms and q.token == ARGV[1] and string.match(q.owner, '^%-?([^;]*)') == ARGV[2] then
    local id = string.sub(fields[i], 3)
    end_permit(p, id, q, 0)
    publish(q.inbox, 'lost ' .. id)
    more = settle_permits(p) or more
    tidy_permits(p)
    return more and 2 or 1
  end
end
return 0
