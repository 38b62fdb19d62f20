-- Part of the scripts that tell processes something.
-- Publishes to a process, and returns how many listened. An inbox in a slot of a Cluster ends with the slot's tag: its
-- messages stay at the node, unless that is older than Redis 7.
local function publish(inbox, message)
  if string.sub(inbox, -1) == '}' then
    local heard = redis.pcall('SPUBLISH', inbox, message)
    if type(heard) == 'number' then return heard end
  end
  return redis.pcall('PUBLISH', inbox, message)
end

-- Returns the message of a grant with a proof at its end that a script wrote it, which knows the secret of the ticket. Nobody else
-- learns the secret, as no message has it (rule 27 of docs/protocol.md). A ticket without one gets no proof.
local function prove(message, secret)
  if secret == '' then return message end
  return message .. ' ' .. redis.sha1hex(message .. secret)
end
