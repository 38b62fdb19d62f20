-- Part of the scripts that give places in a queue, or keep them.
-- Rule 11 of docs/protocol.md.

-- Returns the kept place of a call that does not wait at present: false if there is none, 0 if it has ended, nil if the key is
-- of another type.
local function read_kept_place(key)
  local kept = redis.pcall('GET', key)
  return kept and to_number(kept)
end

-- Keeps a place in the queue.
local function write_kept_place(key, place, ms)
  if read_kept_place(key) ~= nil then call('SET', key, digits(tonumber(place)), 'PX', ms) end
end

-- Returns the place of a new ticket: its predecessor's place if one is given, or its kept place. Otherwise the place is behind
-- all tickets and all kept places. It is the next number of the fencing counter, which no kept place exceeds. A score far ahead
-- of that number was not written by a script and is ignored. `keep` is how long the place is kept (ms), '0' for not at all.
local DAY = 24 * 60 * 60 * 1000000 -- us
local function place_in_queue(given, keep, kept)
  if given and given ~= '' then return given end
  local place_kept = keep ~= '0' and read_kept_place(kept) or 0
  if place_kept > 0 then return digits(place_kept) end
  local new = math.max(last_token() + 1, now_us)
  for _, queue in ipairs(LINES) do
    local last = tonumber(call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]) or 0
    if last >= new and last < new + DAY then new = last + 1 end
  end
  new = digits(new)
  if keep ~= '0' then call('SET', fence, new) end
  return new
end
