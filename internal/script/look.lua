-- Reads who holds a lock and who waits to write while others read, to find deadlocks. It writes nothing.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers: it does not read the last two
--   ARGV 1 how many holders, and how many tickets, at most
--   returns {1 if it is not all, 1 if readers are being admitted, 1 if readers hold the lock,
--            {id, inbox of each holder}, {id, inbox of each ticket}}
-- A key that only stays taken has no holder, and dead tickets are left out. It cannot tell of holds of a kind that it does
-- not know.
local fence = KEYS[4]
--@limits
--@fence
local most = tonumber(ARGV[1])
local f = call('HMGET', KEYS[1], 'id', 'inbox', 'mode')
local reads, holders, tickets = f[3] == 'read', {}, {}
if reads then
  if call('HLEN', KEYS[1]) > most then return {1, 0, 1, {}, {}} end
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local ends, inbox = string.match(fields[i + 1], '^(%d+) %d+ ([^ ]*) ')
    if string.sub(fields[i], 1, 7) == 'reader:' and ends and tonumber(ends) > now_ms then
      holders[#holders + 1] = string.sub(fields[i], 8)
      holders[#holders + 1] = inbox
    end
  end
elseif f[1] and f[2] and f[1] ~= '-' then
  if f[3] and f[3] ~= 'exclusive' and f[3] ~= 'fair' and f[3] ~= 'write' then return {1, 0, 0, {}, {}} end
  holders = {f[1], f[2]}
end
local ids = reads and call('ZRANGE', KEYS[2], 0, most - 1) or {} -- who waits behind an exclusive hold does not matter
for _, id in ipairs(ids) do
  local t = id ~= '#readers' and call('HMGET', KEYS[3], id, '@' .. id)
  local inbox = t and string.match(t[1] or '', '^[^ ]+ [^ ]+ [^ ]+ ([^ ]+) ')
  local seen = t and to_number(string.match(t[2] or '', '^[+-](%d+)'))
  if inbox and seen and now_ms - seen <= 3 * POLL then
    tickets[#tickets + 1] = id
    tickets[#tickets + 1] = inbox
  end
end
local admits = type(redis.pcall('HGET', KEYS[3], '#admit')) == 'string'
return {0, admits and 1 or 0, reads and 1 or 0, holders, tickets}
