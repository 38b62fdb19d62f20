// Package flags parses the flags of the examples and checks their values.
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

// Parse parses args, which must contain only flags. With -h it writes the usage and the flags to stderr and returns
// flag.ErrHelp. Errors print no usage.
func Parse(f *flag.FlagSet, args []string, stderr io.Writer, usage func(io.Writer)) error {
	f.SetOutput(io.Discard) // package flag would print the usage after every error
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

// CheckCount returns an error unless n, the value of a flag, is from 1 to most.
func CheckCount(name string, n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf("-%s is %d, must be from 1 to %d", name, n, most)
	}
	return nil
}

// IsAddress reports whether s is host:port. A listen address (not dialled) may omit the host and have port 0.
func IsAddress(s string, dialled bool) bool {
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && (!dialled || host != "" && n != 0 && !strings.ContainsAny(host, " /"))
}
