-- Takes locks that are free and have no queue, all or none, each as acquire.lua does. Harmless when repeated: the answer
-- says again what the ids have, and an id that is over refuses all.
--   KEYS for n locks: n holders, n queues, n done marks of the ids      last: fencing counter
--   ARGV 1 lease (ms)  2 inbox  3 owner  4 mode  5 trace, '': none      then n ids
--   returns token  all are held, and no ticket waits
--           {token, tickets waiting for each}  all are held since an earlier run
--           -1  nothing was written
--           UNTRUSTED, an error, before the first write: see quarantine.lua
-- Rules 2, 4, 19, 22 and 23 of docs/protocol.md.
--@quarantine
local fence, n, lease = KEYS[#KEYS], (#KEYS - 1) / 3, ARGV[1]
if not may_grant() then return UNTRUSTED end
--@limits
--@fence
local function id_of(i) return ARGV[5 + i] end

if call('EXISTS', unpack(KEYS, 1, 3 * n)) == 0 then
  local first = reserve_tokens(1)
  if not first then return counter_error() end
  local token = digits(first)
  call('SET', fence, token) -- a full memory refuses this write, and none after it
  local inbox, owner, mode, trace = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
  local count, since, waits, calls = 1, first ~= now_us and digits(now_us), false, 1
  --+holder_fields
  for i = 1, n do
    local key, id = KEYS[i], id_of(i)
    --+holder
  end
  return token
end

-- An earlier run may have taken them. An id that is over holds nothing.
local answer = {}
for i = 1, n do
  local held = redis.pcall('HMGET', KEYS[i], 'id', 'token')
  if held[1] ~= id_of(i) then return -1 end
  answer[1] = held[2]
  answer[1 + i] = call('ZCARD', KEYS[n + i])
end
for i = 1, n do -- replicas are to have something to acknowledge (rule 21)
  call('PEXPIRE', KEYS[i], math.max(call('PTTL', KEYS[i]), tonumber(lease)))
end
return answer
