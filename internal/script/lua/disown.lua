-- Ends the holds and tickets that a process has at a key, up to a number of its ids. Ids in use stay. After a loss of its
-- latest writes, a server may have such holds again. A repeated execution does no harm.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 and 6 see acquire.lua
--   ARGV 1 stem of the ids of the process  2 the greatest number that ends  3 and later  ids that stay
--   returns 1  done      2  done, and a poll must follow immediately
-- Rules 3, 5, 13 and 26 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@{kind}
-- Returns whether an id belongs to the process, has at most the last number that ends, and is not one that stays.
local stays = {}
for i = 3, #ARGV do stays[ARGV[i]] = true end
local function is_disowned(id)
  if stays[id] or string.sub(id, 1, #ARGV[1]) ~= ARGV[1] then return false end
  local number = string.match(id, '^[0-9a-z]+$', #ARGV[1] + 1)
  return number ~= nil and tonumber(number, 36) <= tonumber(ARGV[2])
end

-- The stem is not an id. Even if there is no ticket, remove_ticket then tidies up after an execution that was cut off.
local tickets, after = {ARGV[1]}, nil
for _, queue in ipairs(LINES) do
  for _, id in ipairs(redis.pcall('ZRANGE', queue, 0, MAX_ADMITTED - 1)) do
    if is_disowned(id) then tickets[#tickets + 1] = id end
  end
end
remove_ticket(unpack(tickets)) -- before the next grant; a full memory refuses no write after this one
local h = read_hold()
if not (h and h.err) then
  each_hold(h, function(id)
    if is_disowned(id) then
      local _, freed = end_hold(id)
      after = freed or after
    end
  end)
end
return grant_next(after) and 2 or 1
