-- Part of the scripts that may grant a lock: the grant batch of a ticket. These are the tickets directly behind it that may
-- have the lock after it by the same grant.
-- Rule 25 of docs/protocol.md.
-- Returns the ids of the grant batch behind the first ticket of the queue. `ticket` is the text of the first ticket, `second`
-- the id behind it, if there is one, and `other` the text of that ticket.
local function find_grant_batch(ticket, second, other)
  local batch, prefix = {}, string.match(ticket, '^[^ ]+ %d+ 1r:[^ ]* [^ ]+ ')
  if not prefix then return batch end
  local ids, texts, first, last = {second}, {other}, '2', '8' -- most batches are short
  while #ids > 0 do
    for i, id in ipairs(ids) do
      if not texts[i] or string.sub(texts[i], 1, #prefix) ~= prefix or string.find(id, '[ ,]') then return batch end
      batch[#batch + 1] = id
    end
    ids = redis.call('ZRANGE', KEYS[2], first, last)
    texts = #ids > 0 and redis.call('HMGET', KEYS[3], unpack(ids))
    first, last = last + 1, LAST_OF_BATCH
  end
  return batch
end
