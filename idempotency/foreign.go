package idempotency

// Next returns the record of a key after a claim. It is for implementations of Store, which call it in Store.Begin while nothing
// else changes the record. void is whether Store.Void was called for the claim's run.
//
// If begun is true, the store writes next, with the present time in Began and the claim's TTL. Otherwise it writes nothing, and
// returns the record as it is with the error, which is nil or ErrSuperseded.
func (r Record) Next(c Claim, void bool) (next Record, begun bool, err error) {
	n := Record{State: Open, Fingerprint: c.Fingerprint, Run: c.Run, Token: c.Token, Earlier: r.Earlier, Silent: r.Silent}
	switch {
	case void:
		return r, false, ErrSuperseded
	case r.State > Open || r.State == Open && (r.Run == c.Run || r.Fingerprint != c.Fingerprint):
		return r, false, nil
	case c.Token <= r.Token:
		return r, false, ErrSuperseded
	case r.State == None:
		return n, true, nil
	}
	n.Earlier++
	if !r.Returned {
		n.Silent++
	}
	if !c.Over || n.Silent >= c.MaxSilent {
		return r, false, nil
	}
	return n, true, nil
}

// Void returns the record of a key after Store.Void of a run, which changes only the open record of a run that has not returned. It
// is for implementations of Store, like Next.
func (r Record) Void(run string) Record {
	switch {
	case r.State != Open || r.Run != run || r.Returned:
	case r.Earlier == 0:
		r.State, r.Fingerprint, r.Run = None, Fingerprint{}, ""
	default: // it has replaced a run whose outcome is still unknown; a repeated Void must not find its own run
		r.Earlier, r.Returned, r.Run = r.Earlier-1, true, run+"-void"
	}
	return r
}

// Store returns the store that has the run's record. It is for functions that belong to an implementation of Store, such as
// sqlstore.Commit. It is nil if the Run is a replay, or if its record is in Redis.
func (run *Run) Store() Store {
	if run.replay == nil {
		if s, ok := run.runner.records.(*storeRecords); ok {
			return s.Store
		}
	}
	return nil
}
