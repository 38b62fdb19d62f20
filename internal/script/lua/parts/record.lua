-- Part of the scripts that deal with the record of a key, which says whether the key's work was done: a text of words with a space
-- between them. They are its state ('open', 'done', or 'none' if its run was forgotten), its run, the run's token, the fingerprint of
-- the request, how many runs before left no outcome ('earlier') and how many of these never returned ('silent'), whether the run
-- has returned (1 or 0), when it began (us), and the id of its hold. In state 'done' these follow: when it ended (us), the status
-- of the answer, and the answer. '-' stands for nothing.
-- Rule 28 of docs/protocol.md.
local RECORD = '^(%l+) (%S+) (%d+) (%S+) (%d+) (%d+) ([01]) (%S+) (%S+)'

-- Reads a record from what GET has returned or refused.
local function read_record(text)
  if not text then return {state = 'none', run = '-', token = '0', print = '-', earlier = 0, silent = 0} end
  local r = {text = text}
  if type(text) == 'string' then
    r.state, r.run, r.token, r.print, r.earlier, r.silent, r.returned, r.began, r.id = string.match(text, RECORD)
  end
  if not r.state then return {err = 'WRONGTYPE the key does not contain a record'} end
  return r
end

-- Writes a record without an answer. The key keeps its TTL if none is given.
local function write_record(key, r, ...)
  r.text = r.state .. ' ' .. r.run .. ' ' .. r.token .. ' ' .. r.print .. ' ' .. r.earlier .. ' ' .. r.silent .. ' ' .. r.returned
    .. ' ' .. r.began .. ' ' .. r.id
  redis.call('SET', key, r.text, ...)
end

local function time_us()
  local time = redis.call('TIME')
  return time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
end

-- Returns whether the record decides alone what a call gets: it has the answer, or belongs to another request.
local function is_settled(r, print) return r.state == 'done' or r.state == 'open' and r.print ~= print end

-- Opens the record for a run whose lock has that token, unless its state forbids that. ARGV[1] is the id of the hold. Returns 1 if
-- the record is open for the run, 2 if a later run has begun, and 0 otherwise. A repeated execution changes nothing, but writes, so
-- that replicas have a write to acknowledge.
local function open_record(key, r, claim, token)
  if r.state == 'open' and r.run == claim.run then
    redis.call('PEXPIRE', key, claim.ttl)
    if r.id ~= ARGV[1] then -- the call has asked again, under another id
      r.id = ARGV[1]
      write_record(key, r, 'KEEPTTL')
    end
    return 1
  end
  if is_settled(r, claim.print) then return 0 end
  if tonumber(token) <= tonumber(r.token) then return 2 end
  if r.state == 'open' then
    local silent = r.returned == '1' and r.silent or r.silent + 1
    if tonumber(silent) >= tonumber(claim.most) then return 0 end
    r.earlier, r.silent = r.earlier + 1, silent
  end
  r.state, r.run, r.print, r.returned, r.began, r.id = 'open', claim.run, claim.print, '0', time_us(), ARGV[1]
  r.token = string.format('%.0f', tonumber(token))
  write_record(key, r, 'PX', claim.ttl) -- a full memory refuses this write, and none after it
  return 1
end

-- Ends a run: 'keep' records its answer, 'forget' makes the next run like the first, 'leave' says that its outcome is unknown, and
-- 'void' that it does not work under that id. If it does, `begun` is the record's token since it has begun: then only a later begin
-- by a late copy is void. Returns whether the record is the run's, and 'keep' whether it has the answer. A full memory refuses no
-- write after the first one.
local function end_record(key, run, outcome, ttl, status, answer, id, begun)
  local text = redis.pcall('GET', key)
  if outcome == 'keep' and type(text) == 'string' and string.sub(text, 1, #run + 6) == 'open ' .. run .. ' ' then
    redis.call('PEXPIRE', key, ttl)
    redis.call('SET', key, 'done' .. string.sub(text, 5) .. ' ' .. time_us() .. ' ' .. status .. ' ' .. answer, 'KEEPTTL')
    return 1
  end
  local r = read_record(text)
  if r.err then return r end
  if r.run ~= run then return 0 end
  local left = redis.call('PTTL', key)
  if r.state == 'none' then -- forgotten, and perhaps by this call before
    if outcome ~= 'forget' then return 0 end
    if left ~= -1 then redis.call('PEXPIRE', key, math.max(1, left)) end
    return 1
  end
  if r.state == 'done' then
    -- A recorded answer is final: it may be the one that another process has found out for the run.
    if outcome ~= 'keep' or select(10, string.match(text, RECORD .. ' %S+ %S+ (.*)$')) ~= answer then return 0 end
    redis.call('PEXPIRE', key, ttl)
    return 1
  end
  if outcome == 'void' and (r.id ~= id or r.returned == '1' or tonumber(r.token) == tonumber(begun or 0)) then return 0 end
  if outcome == 'leave' then
    r.returned = '1'
  elseif outcome == 'void' and r.earlier ~= '0' then
    -- The outcome of the run that it has replaced is still unknown. No copy of a command may take the record for the void run's.
    r.run, r.returned, r.earlier = run .. '-void', '1', r.earlier - 1
  else
    r.state, r.print, r.returned, r.began, r.id = 'none', '-', '0', '-', '-'
    if outcome == 'void' then r.run = '-' end
  end
  if left ~= -1 then redis.call('PEXPIRE', key, math.max(1, left)) end -- which a full memory does not refuse
  write_record(key, r, 'KEEPTTL')
  return 1
end

-- Takes the arguments of a claim off the end of ARGV.
local function pop_claim()
  local claim, n = {}, #ARGV
  claim.run, claim.print, claim.most, claim.ttl = unpack(ARGV, n - 3)
  for i = n, n - 3, -1 do ARGV[i] = nil end
  return claim
end
