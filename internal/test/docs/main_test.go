// Package docs checks what the documents say: every link leads somewhere, every block of Go is code that
// compiles, the rules that the code cites exist, and the ACL line is neither too short nor too long.
package docs

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
