package inproc

// Keys returns of how many keys something is remembered.
func (l *Locks) Keys() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
