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
local limit = tonumber(ARGV[1])
local f = call('HMGET', KEYS[1], 'id', 'inbox', 'mode')
local mode, holders, tickets = f[3], {}, {}

local function add(list, ...)
  for _, v in ipairs({...}) do list[#list + 1] = v end
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
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local reader, permit = string.match(fields[i], '^reader:(.*)'), string.match(fields[i], '^p:(.*)')
    local ends, inbox, w, owner
    if reader and mode == 'read' then
      ends, inbox, owner = string.match(fields[i + 1], '^(%d+) %d+ ([^ ]*) ([^ ]*)')
      w = '0'
    elseif permit and mode == 'permit' then
      ends, w, inbox, owner = string.match(fields[i + 1], '^(%d+) %d+ %d+ %d+ (%d+) [%d,-]+ ([^ ]*) ([^ ]*)')
    end
    local stays = owner and string.sub(owner, 1, 1) == '-' -- the owner shows it, not the id: any id may begin with '-'
    if ends and tonumber(ends) > now_ms and not stays then add(holders, reader or permit, inbox, w) end
  end
  if mode == 'read' then
    add_tickets(KEYS[2], KEYS[3])
  else
    add_tickets(KEYS[7], KEYS[8])
  end
elseif f[1] and f[2] and f[1] ~= '-' then -- tickets behind a hold that excludes all others do not matter
  if mode and mode ~= 'exclusive' and mode ~= 'fair' and mode ~= 'write' then return {1, 0, 0, {}, {}} end
  add(holders, f[1], f[2], '0')
end
local admits = type(redis.pcall('HGET', KEYS[3], '#admit')) == 'string'
return {0, admits and 1 or 0, mode == 'read' and 1 or 0, holders, tickets}
