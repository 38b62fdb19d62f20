package deadlock

// Asked returns how many answers the Detector waits for.
func (d *Detector) Asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.asked)
}
