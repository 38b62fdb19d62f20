// Package flags reads the flags of the examples, and checks what they say.
package flags

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Parse has f read args, which has to be all there is. With -h it writes what usage writes, and the flags, to stderr and
// returns flag.ErrHelp. Of a mistake nothing is written.
func Parse(f *flag.FlagSet, args []string, stderr io.Writer, usage func(io.Writer)) error {
	f.SetOutput(io.Discard) // the flag package would print the usage after every mistake
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			usage(stderr)
			f.SetOutput(stderr)
			f.PrintDefaults()
		}
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return nil
}

// CheckCount returns an error if the flag of that name counts less than 1, or more than most.
func CheckCount(name string, n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf("-%s is %d, must be from 1 to %d", name, n, most)
	}
	return nil
}

// IsAddress reports whether s is host:port. What is not dialled but listened at may leave out the host, and have port 0.
func IsAddress(s string, dialled bool) bool {
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && (!dialled || host != "" && n != 0 && !strings.ContainsAny(host, " /"))
}
