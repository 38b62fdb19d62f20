  -- Makes `id` the holder (rules 18 and 19 of docs/protocol.md). The counter is written before: a full memory refuses that write, and
  -- none after it. The locals here are set before: key, id, lease, inbox, owner, token, and those of which there is only a field if
  -- they say something: count (of tokens), mode, since (us; false if the token says it), trace, waits (a ticket does), calls (of
  -- its process for which the id stood: the others wait behind it now).
  local fields, n = {}, 0
  if count > 1 then fields[1], fields[2], n = 'tokens', count, 2 end
  if mode ~= 'exclusive' then fields[n + 1], fields[n + 2], n = 'mode', mode, n + 2 end
  if since then fields[n + 1], fields[n + 2], n = 'since', since, n + 2 end
  if trace ~= '' then fields[n + 1], fields[n + 2], n = 'trace', trace, n + 2 end
  if waits then fields[n + 1], fields[n + 2], n = 'wanted', '1', n + 2 end
  if calls > 1 then fields[n + 1], fields[n + 2] = 'waiters', calls - 1 end
  redis.call('HSET', key, 'id', id, 'owner', owner, 'token', token, 'inbox', inbox, unpack(fields))
  redis.call('PEXPIRE', key, lease)
