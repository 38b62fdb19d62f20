-- Reads the tasks that stand on the list of a lock and wait for it, in their order. Writes nothing.
--   KEYS 1 list: ids of tasks, by when they came first  2 tasks to be retried  3 archived tasks
--   ARGV 1 what the keys of tasks begin with      2 how many to read at most
--   returns {how many stand behind them, then for each its id, when it came first (µs), state}; state is
--        parked: put back into its queue      woken: on its way to a worker      waiting: in its worker
-- sign.lua describes the field lockmw. Tasks that do not wait any more leave the list later.
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
  if state then
    found[#found + 1] = list[i]
    found[#found + 1] = list[i + 1]
    found[#found + 1] = state
  end
end
return found
