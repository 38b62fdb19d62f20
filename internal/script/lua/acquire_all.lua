-- Takes several free locks without queues, all or none. Each is taken as acquire.lua takes it. A repeated execution does no
-- harm: it reports what the ids already hold. One id that has ended refuses all.
--   KEYS for n locks: n holders, n queues, n done marks of the ids      last: fencing counter
--   ARGV 1 lease (ms)  2 inbox  3 owner  4 mode  5 trace, '' for none      then n ids
--   returns token  all are held, and no ticket waits
--           {token, tickets waiting for each}  an earlier execution took all of them
--           -1  nothing was written
--           error UNTRUSTED, before the first write: see quarantine.lua
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

-- An earlier execution may have taken them. An id that has ended holds nothing.
local answer = {}
for i = 1, n do
  local held = redis.pcall('HMGET', KEYS[i], 'id', 'token')
  if held[1] ~= id_of(i) then return -1 end
  answer[1] = held[2]
  answer[1 + i] = call('ZCARD', KEYS[n + i])
end
for i = 1, n do -- so that replicas have a write to acknowledge (rule 21)
  call('PEXPIRE', KEYS[i], math.max(call('PTTL', KEYS[i]), tonumber(lease)))
end
return answer
