// Package address checks the addresses that flags have.
package address

import (
	"net"
	"strconv"
	"strings"
)

// Valid reports whether s is host:port. What is not dialled but listened at may leave out the host, and have port 0.
func Valid(s string, dialled bool) bool {
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && (!dialled || host != "" && n != 0 && !strings.ContainsAny(host, " /"))
}
