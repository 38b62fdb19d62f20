-- Part of the scripts that may grant a lock: the run of a ticket, which is the tickets right behind it that may have the
-- lock after it by the same hold.
-- Rule 25 of docs/protocol.md.
-- Returns the ids of the run of the first ticket in the queue. `ticket` is what is known of that, `second` is the id
-- behind it, if there is one, and `other` what is known of that.
local function find_run(ticket, second, other)
  local run, like = {}, string.match(ticket, '^[^ ]+ %d+ 1r:[^ ]* [^ ]+ ')
  local function join(id, text)
    if not text or string.sub(text, 1, #like) ~= like or string.find(id, '[ ,]') then return false end
    run[#run + 1] = id
    return true
  end
  if not like or not second or not join(second, other) then return run end
  local function join_all(first, last)
    local ids = redis.call('ZRANGE', KEYS[2], first, last)
    local texts = #ids > 0 and redis.call('HMGET', KEYS[3], unpack(ids)) or {}
    for i, id in ipairs(ids) do
      if not join(id, texts[i]) then return false end
    end
    return #ids > 0
  end
  if join_all('2', '8') then join_all('9', LAST_OF_RUN) end -- most runs are short
  return run
end

-- Returns the ids of a ticket and of its run as a message names them.
local function name_run(id, run)
  if #run == 0 then return id end
  return id .. ',' .. table.concat(run, ',')
end
