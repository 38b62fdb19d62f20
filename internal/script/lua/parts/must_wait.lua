    -- Part of the fast paths for permits: the process of the ticket with this `text` is alive, and there is no room for its
    -- permit.
    local w, inbox, since, n = string.match(text, '^[^ ]+ [^ ]+ (%d+):?[^ ]* ([^ ]+) [^ ]+ (%d+)[^ ]* (%d+) ?[^ ]*$')
    if not w or w + 0 < 1 or w + 0 > n + 0 or n + 0 > MAX_PERMITS or used + w <= n + 0 then break end
    --+was_seen
