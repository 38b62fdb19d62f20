-- Ends holds of locks that have no queue, each as release.lua does. A lock that has one, or is held in another
-- way, is left to release.lua. Harmless when repeated.
--   KEYS for each lock: holder, queue      ARGV for each lock: id
--   returns for each lock 1  released      0  not held by this id      -1  left to release.lua
-- The only write is the last command: in a slot that moves, a script ends when it asks for a key that it has deleted.
-- Rules 4, 19 and 23 of docs/protocol.md.
local call = redis.call
local answers, over = {}, {}
for i = 1, #ARGV do
  local holder = KEYS[2 * i - 1]
  local held = redis.pcall('HMGET', holder, 'id', 'mode')
  if held[1] ~= ARGV[i] then
    answers[i] = (held.err or held[2] == 'read') and -1 or 0
  elseif call('EXISTS', KEYS[2 * i]) == 1 then
    answers[i] = -1
  else
    over[#over + 1] = holder
    answers[i] = 1
  end
end
if #over > 0 then call('DEL', unpack(over)) end
return answers
