package core

import "time"

// Instant returns the time that a number in Redis stands for: n units since 1970. It is zero for a number that no clock gives, before
// 1970 or after the year 9999: anybody may have written the number, and package time cannot turn all of them into JSON.
func Instant(n int64, unit time.Duration) time.Time {
	perSecond := int64(time.Second / unit)
	if n < 0 || n/perSecond >= end {
		return time.Time{}
	}
	return time.Unix(n/perSecond, n%perSecond*int64(unit))
}

// end is the beginning of the year 10000, in seconds since 1970.
const end = 253_402_300_800
