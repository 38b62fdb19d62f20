-- Ends holds of locks that have no queue, each as release.lua does. A lock that has one, or is held in another
-- way, is left to release.lua. Harmless when repeated.
--   KEYS for each lock: holder, queue      ARGV for each lock: id
--   returns for each lock 1  released      0  not held by this id      -1  left to release.lua
-- Rule 4 of docs/protocol.md.
local call = redis.call
local answers = {}
for i = 1, #ARGV do
  local holder = KEYS[2 * i - 1]
  local held = redis.pcall('HMGET', holder, 'id', 'mode')
  if held[1] ~= ARGV[i] then
    answers[i] = (held.err or held[2] == 'read') and -1 or 0
  elseif call('EXISTS', KEYS[2 * i]) == 1 then
    answers[i] = -1
  else
    call('DEL', holder)
    answers[i] = 1
  end
end
return answers
