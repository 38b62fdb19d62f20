package inproc

// Keys returns how many keys have an entry.
func (l *Locks) Keys() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}

// Ticks returns the number of ticks that have a record.
func (l *Locks) Ticks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ticks)
}
