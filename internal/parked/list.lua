-- Reads the tasks that stand on the list of a lock and wait for it, in their order. Writes nothing.
--   KEYS 1 list: ids of tasks, by when they came first
--   ARGV 1 what the keys of tasks begin with      2 how many to read at most
--   returns {how many stand behind them, then for each its id, when it came first (µs), state}; state is
--        parked: put back into its queue      called: on its way to a worker      waiting: in its worker
-- asynqmw's park.lua tells what the field lockmw of a task is. Tasks that do not wait any more leave the list later.
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local list = call('ZRANGE', KEYS[1], 0, ARGV[2] - 1, 'WITHSCORES')
local found = {call('ZCARD', KEYS[1]) - #list / 2}
for i = 1, #list, 2 do
  local task = call('HMGET', ARGV[1] .. list[i], 'state', 'msg', 'lockmw', 'lockmw_back')
  local nonce, letter, more, till = string.match(task[3] or '', '^(%S+) (%a)(%a*)(%d+) %d+$')
  local state
  if nonce then
    local fresh = tonumber(till) > now
    local isBack = task[1] == 'retry' or task[1] == 'archived' and string.find(more, 'A', 1, true) and task[4] ~= nonce
    if isBack and string.find(task[2] or '', '(' .. nonce .. ')', 1, true) or task[1] == 'active' and letter == 'p' and fresh then
      state = 'parked'
    elseif task[1] == 'pending' or task[1] == 'active' and letter == 'c' and fresh then
      state = 'called'
    elseif task[1] == 'active' and letter == 'w' and fresh then
      state = 'waiting'
    end
  end
  if state then
    found[#found + 1] = list[i]
    found[#found + 1] = list[i + 1]
    found[#found + 1] = state
  end
end
return found
