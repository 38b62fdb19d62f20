-- Takes a lock or a permit away from the holder that an operator has chosen, and grants it to the next ticket.
--   KEYS 1 holder  2 queue  3 tickets  4 fencing counter  5 and 6 see acquire.lua
--   ARGV 1 token  2 owner, without the suffixes of about.go
--   returns 1  taken away      2  taken away, and a poll must follow immediately
--           0  not held, or by another hold
-- Rules 5 and 26 of docs/protocol.md.
--@quarantine
local fence = KEYS[4]
--@{kind}
local h, found, after, _ = read_hold(), {}, nil, nil
if h and h.err then return h end
each_hold(h, function(id, token, owner, inbox)
  if tonumber(token) == tonumber(ARGV[1]) and string.match(owner, '^%-?([^;]*)') == ARGV[2] then found[#found + 1] = {id, inbox} end
end)
if #found == 0 then
  --+not_held
  return 0
end
for _, hold in ipairs(found) do -- readers of one process may have the same owner
  _, after = end_hold(hold[1])
  publish(hold[2], 'lost ' .. hold[1])
end
return grant_next(after) and 2 or 1
