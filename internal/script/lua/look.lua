-- Reads the holders of a key and the tickets that may block other calls, to find deadlocks. It writes nothing.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers  6 see alive.lua  7 queue of permits
--        8 tickets for permits
--   ARGV 1 the greatest number of holders, and of tickets, to return
--   returns {1 if something is missing, 1 if readers are being admitted, 1 if readers hold the lock,
--            {id, inbox, weight of each holder}, {id, inbox, weight, n of each ticket}}
-- Only permits have a weight; otherwise it is 0. A key that only stays taken after its unlock has no holder. Dead tickets are
-- left out. If there are too many holders, or their mode is unknown, the first number is 1 and the lists are empty.
local fence = KEYS[4]
--@limits
--@fence
--@alive
--@readers
--@permit_text
local limit = tonumber(ARGV[1])
local f = call('HMGET', KEYS[1], 'id', 'inbox', 'mode')
local mode, holders, tickets = f[3], {}, {}

local function add(list, ...)
  for _, v in ipairs({...}) do list[#list + 1] = v end
end

-- Adds a hold, unless the key only stays taken. The owner shows that, not the id: any id may begin with '-'.
local function add_holder(id, inbox, w, owner)
  if string.sub(owner, 1, 1) ~= '-' then add(holders, id, inbox, w) end
end

-- Adds the tickets of a queue that are not dead.
local function add_tickets(queue, hash)
  for _, id in ipairs(call('ZRANGE', queue, 0, limit - 1)) do
    local text = id ~= '#readers' and call('HGET', hash, id)
    local w, inbox, since, n = string.match(text or '', '^[^ ]+ [^ ]+ (%d+)[^ ]* ([^ ]+) [^ ]* (%d+)[^ ]* ?([^ ]*)')
    if mode ~= 'permit' then w, n = '0', '0' end
    if inbox and to_number(w) and to_number(n) and not is_dead(inbox, since) then add(tickets, id, inbox, w, n) end
  end
end

if mode == 'read' or mode == 'permit' then
  if call('HLEN', KEYS[1]) > limit then return {1, 0, 0, {}, {}} end
  if mode == 'read' then
    each_reader(nil, function(id, _, inbox, owner, _, ends)
      if ends > now_ms then add_holder(id, inbox, '0', owner) end
    end)
    add_tickets(KEYS[2], KEYS[3])
  else
    each_permit(function(id, q) add_holder(id, q.inbox, digits(q.w), q.owner) end)
    add_tickets(KEYS[7], KEYS[8])
  end
elseif f[1] and f[2] and f[1] ~= '-' then -- tickets behind a hold that excludes all others do not matter
  if mode and mode ~= 'exclusive' and mode ~= 'fair' and mode ~= 'write' then return {1, 0, 0, {}, {}} end
  add(holders, f[1], f[2], '0')
end
local admits = type(redis.pcall('HGET', KEYS[3], '#admit')) == 'string'
return {0, admits and 1 or 0, mode == 'read' and 1 or 0, holders, tickets}
