-- Takes free locks without queues, each as acquire.lua takes it. A lock that is held, is waited for, or whose id has ended is
-- left to acquire.lua. A repeated execution does no harm.
--   KEYS 1 fencing counter  then for each lock: holder, queue, done mark of the id
--   ARGV 1 inbox  then for each lock: id, lease (ms), owner
--   returns for each lock: its token, or -1 if it is left to acquire.lua
--           error UNTRUSTED: see quarantine.lua
-- Rule 4 of docs/protocol.md.
--@quarantine
local fence = KEYS[1]
if not may_grant() then return UNTRUSTED end
--@limits
--@fence
local wanted = (#KEYS - 1) / 3
local first, given = reserve_tokens(wanted)
if not first then return counter_error() end
call('SET', fence, digits(first + given - 1)) -- a full memory refuses this write
local tokens, inbox, fields = {}, ARGV[1], {}
for i = 1, wanted do
  local k = 3 * i - 1
  tokens[i] = -1
  if i <= given and call('EXISTS', KEYS[k], KEYS[k + 1], KEYS[k + 2]) == 0 then
    tokens[i] = digits(first + i - 1)
    local key, id, lease, owner, token = KEYS[k], ARGV[k], ARGV[k + 1], ARGV[k + 2], tokens[i]
    --+holder
  end
end
return tokens
