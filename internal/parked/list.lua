-- Reads the tasks on the list of a lock that wait for it, in their order. It writes nothing.
--   KEYS 1 list: ids of tasks, by the time when they came first  2 retry set of asynq  3 archive of asynq
--   ARGV 1 prefix of the keys of tasks      2 the greatest number of tasks to read      3 lock
--   returns {number of tasks behind them on the list, then for each task: its id, when it came first (µs), state}; the state is
--        parked: back in its queue      woken: on its way to a worker      waiting: in its worker
-- sign.lua describes the fields lockmw and lockmw_lock. Tasks that no longer wait for the lock are left out; they are removed from
-- the list later.
local call = redis.call
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local list = call('ZRANGE', KEYS[1], 0, ARGV[2] - 1, 'WITHSCORES')
local found = {call('ZCARD', KEYS[1]) - #list / 2}
for i = 1, #list, 2 do
  local task = signs(ARGV[1] .. list[i])
  local here, state = task.state == 'active' and task.till > now, nil
  if here and task.letter == 'p' or stored(task, list[i], KEYS[2], KEYS[3]) then
    state = 'parked'
  elseif task.letter and task.state == 'pending' or here and task.woken then
    state = 'woken'
  elseif here and task.letter == 'w' then
    state = 'waiting'
  end
  if state and (not task.lock or task.lock == ARGV[3]) then
    found[#found + 1] = list[i]
    found[#found + 1] = list[i + 1]
    found[#found + 1] = state
  end
end
return found
