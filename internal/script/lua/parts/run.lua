-- Part of the scripts that may grant a lock: the grant batch of a ticket. These are the tickets directly behind it that may
-- have the lock after it by the same grant.
-- Rule 25 of docs/protocol.md.
-- Returns the ids of the grant batch behind the first ticket of the queue. `ticket` is the text of the first ticket, `second`
-- the id behind it, if there is one, and `other` the text of that ticket.
local function find_grant_batch(ticket, second, other)
  local batch, prefix = {}, string.match(ticket, '^[^ ]+ %d+ 1r:[^ ]* [^ ]+ ')
  local function join(id, text)
    if not text or string.sub(text, 1, #prefix) ~= prefix or string.find(id, '[ ,]') then return false end
    batch[#batch + 1] = id
    return true
  end
  if not prefix or not second or not join(second, other) then return batch end
  local function join_all(first, last)
    local ids = redis.call('ZRANGE', KEYS[2], first, last)
    local texts = #ids > 0 and redis.call('HMGET', KEYS[3], unpack(ids)) or {}
    for i, id in ipairs(ids) do
      if not join(id, texts[i]) then return false end
    end
    return #ids > 0
  end
  if join_all('2', '8') then join_all('9', LAST_OF_BATCH) end -- most batches are short
  return batch
end

-- Returns the ids of a ticket and of its grant batch as a message names them.
local function grant_batch_ids(id, batch)
  if #batch == 0 then return id end
  return id .. ',' .. table.concat(batch, ',')
end
