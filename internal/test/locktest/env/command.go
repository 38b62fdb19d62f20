package env

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
)

// WordLikeNow returns a number in c that looks like a time of the last hour, in any unit; "" if there is none.
func WordLikeNow(c redistest.Command) string {
	now := float64(time.Now().UnixNano())
	for _, word := range c {
		for field := range strings.FieldsSeq(word) {
			n, err := strconv.ParseFloat(field, 64)
			for unit := 1.0; err == nil && unit <= float64(time.Second); unit *= 1000 {
				if age := now - n*unit; age > -float64(time.Hour) && age < float64(time.Hour) {
					return field
				}
			}
		}
	}
	return ""
}
