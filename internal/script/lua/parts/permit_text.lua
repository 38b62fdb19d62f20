-- Part of the scripts that read all permits of a semaphore: see permits.lua.

-- Returns the permit that a field describes; nil if the field does not describe one.
local function parse_permit(text)
  local ends, since, token, n, w, slots, inbox, owner, trace =
    string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) ([%d,-]+) ([^ ]*) ([^ ]*) ?([^ ]*)$')
  if not ends then return nil end
  return {
    ends = tonumber(ends), since = since, token = token, n = n, w = tonumber(w), slots = slots, inbox = inbox, owner = owner,
    trace = trace,
  }
end

-- Calls f(id, permit) for each permit that has not expired.
local function each_permit(f)
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local q = string.sub(fields[i], 1, 2) == 'p:' and parse_permit(fields[i + 1])
    if q and q.ends > now_ms then f(string.sub(fields[i], 3), q) end
  end
end
