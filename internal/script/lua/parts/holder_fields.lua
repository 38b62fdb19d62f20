  -- The optional fields of a holder, from locals that must be set before: count (of tokens), mode, since (us; false if the
  -- token shows it), trace, waits (whether a ticket waits), calls (of its process that shared the ticket: all but one now wait
  -- behind the holder).
  local fields, last_field = {}, 0
  if count > 1 then fields[1], fields[2], last_field = 'tokens', count, 2 end
  if mode ~= 'exclusive' then fields[last_field + 1], fields[last_field + 2], last_field = 'mode', mode, last_field + 2 end
  if since then fields[last_field + 1], fields[last_field + 2], last_field = 'since', since, last_field + 2 end
  if trace ~= '' then fields[last_field + 1], fields[last_field + 2], last_field = 'trace', trace, last_field + 2 end
  if waits then fields[last_field + 1], fields[last_field + 2], last_field = 'wanted', '1', last_field + 2 end
  if calls > 1 then fields[last_field + 1], fields[last_field + 2] = 'waiters', calls - 1 end
