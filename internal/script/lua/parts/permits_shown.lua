--@limits
-- Part of the scripts that report the permits of a semaphore.

-- Returns in how many ms the first permit may end, the time (us), and the fields of up to MAX_SHOWN permits. Long lists of
-- slots are left out.
local function show_permits(next, now_ms, now)
  local shown = {math.max(next - now_ms, 0), now}
  local fields = call('HSCAN', KEYS[1], 0, 'COUNT', 8 * MAX_SHOWN)[2] -- COUNT is a number of buckets, which may be empty
  for i = 1, #fields, 2 do
    local text = fields[i + 1]
    if #shown < 2 + MAX_SHOWN and text ~= '' and string.sub(fields[i], 1, 2) == 'p:' then
      if #text > MAX_SLOTS_SHOWN then
        local before, slots, after = string.match(text, '^(%d+ %d+ %d+ %d+ %d+ )([%d,-]+)(.*)$')
        if slots and #slots > MAX_SLOTS_SHOWN then text = before .. after end
      end
      shown[#shown + 1] = text
    end
  end
  return unpack(shown)
end
