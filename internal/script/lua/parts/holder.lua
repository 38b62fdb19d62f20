  -- Makes `id` the holder (rules 18 and 19 of docs/protocol.md). The counter must be written before: a full memory refuses that
  -- write, and none after it. These locals must be set: key, id, lease, inbox, owner, token, and `fields` of holder_fields.lua.
  redis.call('HSET', key, 'id', id, 'owner', owner, 'token', token, 'inbox', inbox, unpack(fields))
  redis.call('PEXPIRE', key, lease)
