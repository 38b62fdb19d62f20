-- Names the locks that have a list in a queue, and gives one of the servers the turn to look whether they are free. The turn ends
-- when its server has not asked for a while. Two servers that look at the same time are harmless. Harmless when repeated.
--   KEYS 1 id of the server whose turn it is  2 lists: the locks that have a list
--   ARGV 1 id of the server that asks      2 how long a turn lasts (ms); 0: the server gives its turn up
--        3 how many locks to name at most
--   returns {1 if it is the turn of the server that asks, otherwise 0, locks…}; the locks are chosen at random if there are more
local call = redis.call
local looker = call('GET', KEYS[1])
local mine = not looker or looker == ARGV[1]
if ARGV[2] == '0' then
  if looker == ARGV[1] then call('DEL', KEYS[1]) end
  return {0}
end
local locks = call('SRANDMEMBER', KEYS[2], ARGV[3])
if mine and #locks > 0 then call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
table.insert(locks, 1, mine and #locks > 0 and 1 or 0)
return locks
