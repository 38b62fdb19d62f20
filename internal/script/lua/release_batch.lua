-- Ends holds of locks without queues, each as release.lua does. A lock is left to release.lua if it has a queue or if the id
-- does not hold it alone. A repeated execution does no harm.
--   KEYS for each lock: holder, queue      ARGV for each lock: id
--   returns for each lock: 1  released      -1  left to release.lua
-- The only write is the last command: while a slot moves, a script that asks for a key that it has deleted ends there.
-- Rules 4, 19 and 23 of docs/protocol.md.
local call, n = redis.call, #ARGV
local queues, ended, answers = {}, {}, {}
for i = 1, n do queues[i] = KEYS[2 * i] end
local queued = call('EXISTS', unpack(queues)) > 0
for i = 1, n do
  local holder = KEYS[2 * i - 1]
  answers[i] = -1
  if redis.pcall('HGET', holder, 'id') == ARGV[i] and not (queued and call('EXISTS', queues[i]) == 1) then
    ended[#ended + 1] = holder
    answers[i] = 1
  end
end
if #ended > 0 then call('DEL', unpack(ended)) end
return answers
