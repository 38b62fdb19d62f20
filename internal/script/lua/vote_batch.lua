-- Takes free locks without queues that are each over several nodes, each as acquire.lua takes it. A lock that is held, is
-- waited for, or whose id has ended is left to acquire.lua. A repeated execution does no harm.
--   KEYS 1 fencing counter  then for each lock: holder, queue, done mark of the id
--   ARGV 1 inbox  then for each lock: id, lease (ms), owner, tokens wanted, trace, the proposed token, 0 for none
--   returns for each lock: {1, token, tokens, 0, time (us)}, or -1 if it is left to acquire.lua
--           error UNTRUSTED: see quarantine.lua
-- Rules 4, 19 and 24 of docs/protocol.md.
--@quarantine
local fence = KEYS[1]
if not may_grant() then return UNTRUSTED end
--@limits
--@fence
--@vote
local last = last_token()
if not last then return counter_error() end
local answers, taken = {}, {}
for i = 1, (#KEYS - 1) / 3 do
  local k, a = 3 * i - 1, 6 * i - 4
  answers[i] = -1
  if not taken[KEYS[k]] and call('EXISTS', KEYS[k], KEYS[k + 1], KEYS[k + 2]) == 0 then
    local first, count = propose_tokens(last, now_us, tonumber(ARGV[a + 3]), tonumber(ARGV[a + 5]))
    if first then
      last, taken[KEYS[k]] = first + count - 1, true
      answers[i] = {1, first, count, 0, now_us}
    end
  end
end
if not next(taken) then return answers end
call('SET', fence, digits(last)) -- a full memory refuses this write
local inbox = ARGV[1]
for i, answer in ipairs(answers) do
  if answer ~= -1 then
    local k, a = 3 * i - 1, 6 * i - 4
    local key, id, lease, owner, token, trace = KEYS[k], ARGV[a], ARGV[a + 1], ARGV[a + 2], digits(answer[2]), ARGV[a + 4]
    local count, mode, since, waits, calls = answer[3], 'exclusive', answer[2] > now_us + SINCE and digits(now_us), false, 1
    --+holder_fields
    --+holder
  end
end
return answers
