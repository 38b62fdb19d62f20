package judge

import "time"

// A Violation is a broken guarantee.
type Violation struct {
	Kind Kind
	Key  string
	At   time.Duration // by the machine's clock
	Text string
}

// A Kind says which guarantee was broken.
type Kind string

// The kinds of violations that holds of several processes can show.
const (
	Overlap   Kind = "overlap"   // two holders at the same time, or more permits than there are
	Tokens    Kind = "tokens"    // a token that does not rise
	Overtaken Kind = "overtaken" // a call that overtakes another in strict order
)
