-- Part of the scripts that may grant a lock (rules 18 and 19 of docs/protocol.md).
-- Makes `id` the holder. The counter is written first: a full memory refuses that write, and then nothing
-- has changed. Numbers are formatted, because concatenation loses digits. A field that says nothing new is
-- left out: 'tokens' if it is 1, 'mode' if it is exclusive, 'since' if the token says it, an empty 'trace', 'wanted'
-- if no ticket waits, and 'waiters' if `id` stood for one call only: the others wait behind it now, in its process.
local function set_holder(id, first, count, mode, lease, inbox, owner, trace, waiting, calls)
  local token = string.format('%.0f', first)
  call('SET', fence, count == 1 and token or string.format('%.0f', first + count - 1))
  local fields = {'id', id, 'owner', owner, 'token', token, 'inbox', inbox}
  local function field(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  if count > 1 then field('tokens', count) end
  if mode ~= 'exclusive' then field('mode', mode) end
  if first < now_us or first > now_us + SINCE then field('since', string.format('%.0f', now_us)) end
  if trace ~= '' then field('trace', trace) end
  if waiting > 0 then field('wanted', 1) end
  if calls > 1 then field('waiters', calls - 1) end
  call('HSET', KEYS[1], unpack(fields))
  call('PEXPIRE', KEYS[1], lease)
end
