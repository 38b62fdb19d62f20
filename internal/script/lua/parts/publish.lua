-- Part of the scripts that publish messages.
-- Publishes to the inbox of a process, and returns how many subscribers received the message. An inbox in a slot of a Cluster
-- ends with the slot's tag. Its messages stay on the node, unless the node is older than Redis 7.
local function publish(inbox, message)
  if string.sub(inbox, -1) == '}' then
    local heard = redis.pcall('SPUBLISH', inbox, message)
    if type(heard) == 'number' then return heard end
  end
  return redis.pcall('PUBLISH', inbox, message)
end

-- Returns the message of a grant with a proof at its end: only a script that has the secret of the ticket can make it. No
-- message contains the secret (rule 27 of docs/protocol.md). A ticket without a secret gets no proof.
local function prove(message, secret)
  if secret == '' then return message end
  return message .. ' ' .. redis.sha1hex(message .. secret)
end
