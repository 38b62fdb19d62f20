package core

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// ProcessName returns the name by which an operator recognises this process: host:pid. Whatever the host is called, the name is
// printable ASCII without spaces, and can be a part of a key.
func ProcessName() string {
	host, _ := os.Hostname()
	return processName(host)
}

func processName(host string) string {
	host = strings.Map(func(r rune) rune {
		if isUnfit(r) || strings.ContainsRune(":{}", r) {
			return '_'
		}
		return r
	}, cmp.Or(host, "unknown"))
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
