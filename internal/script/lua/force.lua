-- Takes the lock away from the holder that an operator has seen, and grants it to the next ticket.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers      ARGV 1 token
--        2 owner, without what about.go adds to it
--   returns 1  taken away      2  taken away, and a poll is to be run at once
--           0  not held, or by another hold
-- Rule 5 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@limits
--@fence
--@hold
--@readers
--@publish
--@run
--@settle
local h = read_holder()
if h and h.err then return h end
if not h or h.token ~= tonumber(ARGV[1]) then return 0 end
local found = {}
local function is_owner(about) return string.match(about, '^%-?([^;]*)') == ARGV[2] end
if h.mode ~= 'read' then
  if is_owner(h.owner) then found[1] = {h.id, h.inbox} end
else
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local inbox, owner = string.match(fields[i + 1], '^%d+ %d+ ([^ ]*) ([^ ]*)')
    if owner and is_owner(owner) then found[#found + 1] = {string.sub(fields[i], 8), inbox} end
  end
end
if #found == 0 then return 0 end
local after
for _, one in ipairs(found) do
  after = end_hold(one[1])
  publish(one[2], 'lost ' .. one[1])
end
return settle(after) and 2 or 1
