-- Ends holds of locks that have no queue, each as release.lua does. A lock that has one, or that the id does not have for itself,
-- is left to release.lua. Harmless when repeated.
--   KEYS for each lock: holder, queue      ARGV for each lock: id
--   returns for each lock 1  released      -1  left to release.lua
-- The only write is the last command: in a slot that moves, a script ends when it asks for a key that it has deleted.
-- Rules 4, 19 and 23 of docs/protocol.md.
local call, n = redis.call, #ARGV
local queues, over, answers = {}, {}, {}
for i = 1, n do queues[i] = KEYS[2 * i] end
local queued = call('EXISTS', unpack(queues)) > 0
for i = 1, n do
  local holder = KEYS[2 * i - 1]
  answers[i] = -1
  if redis.pcall('HGET', holder, 'id') == ARGV[i] and not (queued and call('EXISTS', queues[i]) == 1) then
    over[#over + 1] = holder
    answers[i] = 1
  end
end
if #over > 0 then call('DEL', unpack(over)) end
return answers
