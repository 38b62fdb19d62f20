-- Ends the holds and the tickets that a process has at a key, up to a number of its ids. Ids that are in use stay. A server
-- that has lost its latest writes may have such holds again. Harmless when repeated.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 queue of readers
--   ARGV 1 stem of the ids of the process  2 the greatest number that ends  3 and on  ids that stay
--   returns 1  done      2  done, and a poll is to be run immediately
-- Rules 3, 5 and 13 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@limits
--@fence
--@hold
--@readers
--@publish
--@run
--@settle
--@disowned
local tickets = {ARGV[1]} -- which is none: if there is no other, this removes what an earlier run has left
add_disowned(tickets, KEYS[2])
add_disowned(tickets, KEYS[5])
remove_ticket(unpack(tickets)) -- before one is granted the lock
local h, after = redis.pcall('HMGET', KEYS[1], 'id', 'mode'), nil
if is_disowned(h[1]) then
  after = end_hold(h[1])
elseif h[2] == 'read' then
  for _, field in ipairs(call('HGETALL', KEYS[1])) do -- names and values: no value begins so
    local id = string.match(field, '^reader:(.*)$')
    if id and is_disowned(id) then after = end_hold(id) or after end
  end
end
return settle(after) and 2 or 1
