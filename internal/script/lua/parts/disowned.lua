-- Part of the scripts that end what a process has left at a key.

-- Returns whether an id is one of the process, up to the last number that has ended, and not among those that stay.
local stays = {}
for i = 3, #ARGV do stays[ARGV[i]] = true end
local function is_disowned(id)
  if type(id) ~= 'string' or stays[id] or string.sub(id, 1, #ARGV[1]) ~= ARGV[1] then return false end
  local digits = string.match(id, '^[0-9a-z]+$', #ARGV[1] + 1)
  return digits ~= nil and tonumber(digits, 36) <= tonumber(ARGV[2])
end

-- Adds the disowned ones of the first tickets in a queue. It does not touch keys of another type.
local function add_disowned(tickets, queue)
  for _, id in ipairs(redis.pcall('ZRANGE', queue, 0, MAX_ADMITTED - 1)) do
    if is_disowned(id) then tickets[#tickets + 1] = id end
  end
end
