-- Part of the scripts that deal with readers. The hash of a lock that readers hold has the mode 'read', the token of the phase,
-- and a field for each reader: when its hold ends (ms), since when it reads (us), inbox, owner and trace. No reader's hold ends
-- before 'next'. 'wanted' is 1 if a writer waits. The hash expires with the last of its readers.
-- Rule 12 of docs/protocol.md.
local COMMON_FIELDS = 4 -- the fields that are not readers: mode, token, next and wanted

-- Returns whether these values of 'mode', 'token' and 'next' describe a read hold.
local function is_read_hold(f) return f[1] == 'read' and to_number(f[2]) and to_number(f[3]) end

-- Changes a field of an existing lock. On an embedded server the clock advances during a script, and a lock that has just
-- expired must not come back to life. `write` is `call`, or `try_write` if a full memory may refuse the write.
local function set_field(write, field, value)
  local endless = call('PTTL', KEYS[1]) == -1
  write('HSET', KEYS[1], field, value)
  if not endless and call('PTTL', KEYS[1]) == -1 then call('DEL', KEYS[1]) end
end

-- Makes `id` a reader. If there is no phase of readers, it begins one with this token. `was_writer` says that the id held the
-- lock alone.
local function add_reader(id, token, lease, inbox, owner, trace, was_writer)
  local ends, first = now_ms + lease, to_number(call('HGET', KEYS[1], 'next'))
  local fields = first and {} or {'mode', 'read', 'token', digits(token), 'wanted', 0}
  if not first or ends < first then fields[#fields + 1], fields[#fields + 2] = 'next', digits(ends) end
  if was_writer then fields[#fields + 1], fields[#fields + 2] = 'id', '-' end -- no hold has this id
  call('HSET', KEYS[1], 'reader:' .. id, string.format('%.0f %.0f %s %s %s', ends, now_us, inbox, owner, trace), unpack(fields))
  if call('PTTL', KEYS[1]) < tonumber(lease) then call('PEXPIRE', KEYS[1], lease) end
end

-- Removes expired readers, and ends the phase with the last of them. Returns whether a reader is left.
local ended_mode -- 'read' if this execution has ended a phase of readers
local function reap_readers()
  local left = call('HLEN', KEYS[1]) > COMMON_FIELDS
  if now_ms >= (to_number(call('HGET', KEYS[1], 'next')) or 0) then
    local fields, first = call('HGETALL', KEYS[1]), nil
    for i = 1, #fields, 2 do
      local ends = string.sub(fields[i], 1, 7) == 'reader:' and (to_number(string.match(fields[i + 1], '^%d+')) or 0)
      if ends and ends > now_ms then
        first = math.min(first or ends, ends)
      elseif ends then
        call('HDEL', KEYS[1], fields[i])
      end
    end
    left = first ~= nil
    if left then set_field(try_write, 'next', digits(first)) end
  end
  if not left then
    call('DEL', KEYS[1])
    ended_mode = 'read'
  end
  return left
end

-- Extends a reader's hold to at least `lease` (ms) from now, and never shortens it. Returns false if there is no such reader.
local function extend_reader(id, lease)
  local ends, rest = string.match(call('HGET', KEYS[1], 'reader:' .. id) or '', '^(%d+)( .*)$')
  ends = to_number(ends)
  if not ends or ends <= now_ms then return false end
  call('PEXPIRE', KEYS[1], math.max(call('PTTL', KEYS[1]) + 1, lease)) -- see renew.lua; a full memory does not refuse this write or later ones
  if ends < now_ms + lease then set_field(call, 'reader:' .. id, digits(now_ms + lease) .. rest) end
  return true
end

-- Calls f(id, since (us), inbox, owner, trace, end (ms)) for each reader. If `at_least` is given and there are more readers,
-- only for some of them, but for at least that many.
local function each_reader(at_least, f)
  -- COUNT is a number of buckets, which may be empty.
  local fields = at_least and call('HSCAN', KEYS[1], 0, 'COUNT', 8 * at_least)[2] or call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local ends, since, inbox, owner, trace = string.match(fields[i + 1], '^(%d+) (%d+) ([^ ]*) ([^ ]*) ?([^ ]*)$')
    if string.sub(fields[i], 1, 7) == 'reader:' and ends then
      f(string.sub(fields[i], 8), since, inbox, owner, trace, tonumber(ends))
    end
  end
end
