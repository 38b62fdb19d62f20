-- Returns the locks that have a list in a queue, and gives one server the turn to check whether they are free. The turn ends
-- when its server has not asked for a while. It does no harm if two servers check at the same time, or if an execution is
-- repeated.
--   KEYS 1 id of the server that has the turn  2 lists: the locks that have a list
--   ARGV 1 id of the server that asks      2 length of a turn (ms); 0: the server gives up its turn
--        3 the greatest number of locks to return
--   returns {1 if the server that asks has the turn, otherwise 0, locks…}; if there are more locks, they are chosen at random
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
