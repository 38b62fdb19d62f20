-- Part of the scripts that deal with readers. The hash of a lock that readers hold has the mode 'read', the token of the phase,
-- and a field for each reader: when its hold ends (ms), since when it reads (us), inbox, owner and trace. No reader's hold ends
-- before 'next'. 'wanted' is 1 if a writer waits. The hash expires with the last of its readers.
-- Rule 12 of docs/protocol.md.
local COMMON = {mode = true, token = true, next = true, wanted = true} -- the fields that are not readers
local COMMON_FIELDS = 4

local function reader_field(id) return 'reader:' .. id end

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
  local fields = {reader_field(id), string.format('%.0f %.0f %s %s %s', ends, now_us, inbox, owner, trace)}
  if not first then
    fields = {fields[1], fields[2], 'mode', 'read', 'token', digits(token), 'wanted', 0}
  end
  if not first or ends < first then
    fields[#fields + 1] = 'next'
    fields[#fields + 1] = digits(ends)
  end
  if was_writer then
    fields[#fields + 1] = 'id'
    fields[#fields + 1] = '-' -- no hold has this id
  end
  call('HSET', KEYS[1], unpack(fields))
  if call('PTTL', KEYS[1]) < tonumber(lease) then call('PEXPIRE', KEYS[1], lease) end
end

-- Removes the fields that are left over from the former write hold.
local function drop_other_fields()
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    if not COMMON[fields[i]] and string.sub(fields[i], 1, 7) ~= 'reader:' then call('HDEL', KEYS[1], fields[i]) end
  end
end

-- Removes expired readers, and ends the phase with the last of them. Returns whether a reader is left.
local ended_mode -- 'read' if this execution has ended a phase of readers
local function reap_readers()
  local function end_phase()
    call('DEL', KEYS[1])
    ended_mode = 'read'
    return false
  end
  if now_ms < (to_number(call('HGET', KEYS[1], 'next')) or 0) then
    return call('HLEN', KEYS[1]) > COMMON_FIELDS or end_phase()
  end
  local fields, first = call('HGETALL', KEYS[1]), nil
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 7) == 'reader:' then
      local ends = to_number(string.match(fields[i + 1], '^%d+')) or 0
      if ends > now_ms then
        first = math.min(first or ends, ends)
      else
        call('HDEL', KEYS[1], fields[i])
      end
    end
  end
  if not first then return end_phase() end
  set_field(try_write, 'next', digits(first))
  return true
end

-- Extends a reader's hold to at least `lease` (ms) from now, and never shortens it. Returns false if there is no such reader.
local function extend_reader(id, lease)
  local ends, rest = string.match(call('HGET', KEYS[1], reader_field(id)) or '', '^(%d+)( .*)$')
  ends = to_number(ends)
  if not ends or ends <= now_ms then return false end
  call('PEXPIRE', KEYS[1], math.max(call('PTTL', KEYS[1]) + 1, lease)) -- see renew.lua; a full memory does not refuse this write or later ones
  if ends < now_ms + lease then
    set_field(call, reader_field(id), digits(now_ms + lease) .. rest)
  end
  return true
end

-- Calls f(id, since (us), inbox, owner, trace, end (ms)) for each reader. If `at_least` is given and there are more readers,
-- only for some of them, but for at least that many.
local function each_reader(at_least, f)
  local fields
  if at_least then
    fields = call('HSCAN', KEYS[1], 0, 'COUNT', 8 * at_least)[2] -- COUNT is a number of buckets, which may be empty
  else
    fields = call('HGETALL', KEYS[1])
  end
  for i = 1, #fields, 2 do
    local ends, since, inbox, owner, trace = string.match(fields[i + 1], '^(%d+) (%d+) ([^ ]*) ([^ ]*) ?([^ ]*)$')
    if string.sub(fields[i], 1, 7) == 'reader:' and ends then
      f(string.sub(fields[i], 8), since, inbox, owner, trace, tonumber(ends))
    end
  end
end
