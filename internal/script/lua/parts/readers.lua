-- Part of the scripts that deal with readers. The hash of a lock that is held for reading has the mode
-- 'read', the token of the phase, and a field for each reader: when its hold ends (ms), since when it
-- reads (us), inbox, owner and trace. No reader's hold ends before 'next'. 'wanted' is 1 if a writer
-- waits. The hash expires with the last of its readers.
-- Rule 12 of docs/protocol.md.
local COMMON = {mode = true, token = true, next = true, wanted = true} -- the fields that are not readers
local COMMON_FIELDS = 4

local function reader_field(id) return 'reader:' .. id end

-- Returns whether the values of 'mode', 'token' and 'next' are those of a read hold.
local function is_read_hold(f) return f[1] == 'read' and to_number(f[2]) and to_number(f[3]) end

-- Changes a field of a lock that exists. On an embedded server time goes on during a script, and the lock
-- must not come back to life if it has just expired. `run` is try_write for a write that a full memory may
-- refuse.
local function set_field(run, field, value)
  local endless = call('PTTL', KEYS[1]) == -1
  run('HSET', KEYS[1], field, value)
  if not endless and call('PTTL', KEYS[1]) == -1 then call('DEL', KEYS[1]) end
end

-- Makes `id` a reader. It begins a phase with that token if there is none. `wrote` says that it had the lock for itself.
local function add_reader(id, token, lease, inbox, owner, trace, wrote)
  local ends, first = now_ms + lease, to_number(call('HGET', KEYS[1], 'next'))
  local fields = {reader_field(id), string.format('%.0f %.0f %s %s %s', ends, now_us, inbox, owner, trace)}
  if not first then
    fields = {fields[1], fields[2], 'mode', 'read', 'token', digits(token), 'wanted', 0}
  end
  if not first or ends < first then
    fields[#fields + 1] = 'next'
    fields[#fields + 1] = digits(ends)
  end
  if wrote then
    fields[#fields + 1] = 'id'
    fields[#fields + 1] = '-' -- no hold has this id
  end
  call('HSET', KEYS[1], unpack(fields))
  if call('PTTL', KEYS[1]) < tonumber(lease) then call('PEXPIRE', KEYS[1], lease) end
end

-- Removes what is left in the hash of the hold that it was before it was one for reading.
local function drop_other_fields()
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    if not COMMON[fields[i]] and string.sub(fields[i], 1, 7) ~= 'reader:' then call('HDEL', KEYS[1], fields[i]) end
  end
end

-- Removes readers whose holds have expired, and ends the phase with the last of them. Returns whether
-- a reader is left.
local ended_mode -- 'read' if this run has ended a phase of readers
local function reap_readers()
  local function over()
    call('DEL', KEYS[1])
    ended_mode = 'read'
    return false
  end
  if now_ms < (to_number(call('HGET', KEYS[1], 'next')) or 0) then
    return call('HLEN', KEYS[1]) > COMMON_FIELDS or over()
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
  if not first then return over() end
  set_field(try_write, 'next', digits(first))
  return true
end

-- Extends a reader's hold to at least `lease` (ms) from now. It shortens no hold. Returns false if there
-- is no such reader.
local function extend_reader(id, lease)
  local ends, rest = string.match(call('HGET', KEYS[1], reader_field(id)) or '', '^(%d+)( .*)$')
  ends = to_number(ends)
  if not ends or ends <= now_ms then return false end
  call('PEXPIRE', KEYS[1], math.max(call('PTTL', KEYS[1]) + 1, lease)) -- see renew.lua; a full memory refuses neither this write nor those after it
  if ends < now_ms + lease then
    set_field(call, reader_field(id), digits(now_ms + lease) .. rest)
  end
  return true
end

-- Calls f(id, since (us), inbox, owner, trace, end (ms)) for each reader, or for at least `some` of them if
-- that is given and there are many.
local function each_reader(some, f)
  local fields
  if some then
    fields = call('HSCAN', KEYS[1], 0, 'COUNT', 8 * some)[2] -- COUNT is a number of buckets, which may be empty
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
