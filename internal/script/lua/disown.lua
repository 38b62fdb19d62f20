-- Ends the holds and the tickets that a process has at a key, up to a number of its ids. Ids that are in use stay. A server
-- that has lost its latest writes may have such holds again. Harmless when repeated.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 and 6 see acquire.lua
--   ARGV 1 stem of the ids of the process  2 the greatest number that ends  3 and on  ids that stay
--   returns 1  done      2  done, and a poll is to be run immediately
-- Rules 3, 5, 13 and 26 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@{kind}
-- Returns whether an id is one of the process, up to the last number that has ended, and not among those that stay.
local stays = {}
for i = 3, #ARGV do stays[ARGV[i]] = true end
local function is_disowned(id)
  if stays[id] or string.sub(id, 1, #ARGV[1]) ~= ARGV[1] then return false end
  local number = string.match(id, '^[0-9a-z]+$', #ARGV[1] + 1)
  return number ~= nil and tonumber(number, 36) <= tonumber(ARGV[2])
end

local tickets, after = {ARGV[1]}, nil -- which is none: if there is no other, this removes what an earlier run has left
for _, queue in ipairs(LINES) do
  for _, id in ipairs(redis.pcall('ZRANGE', queue, 0, MAX_ADMITTED - 1)) do
    if is_disowned(id) then tickets[#tickets + 1] = id end
  end
end
remove_ticket(unpack(tickets)) -- before one is granted the lock; a full memory refuses no write after this
local h = read_hold()
if not (h and h.err) then
  each_hold(h, function(id)
    if is_disowned(id) then
      local _, freed = end_hold(id)
      after = freed or after
    end
  end)
end
return settle(after) and 2 or 1
