// Package option holds the marks by which the compiler decides which package accepts which option.
package option

// What an option can be given to.
type (
	Client interface{ client() }
	HTTP   interface{ http() }
	Task   interface{ task() }
)

// Embedded in an option type, these make it one of the above.
type (
	ForClient  struct{}
	ForHTTP    struct{}
	ForTask    struct{}
	Everywhere struct {
		ForClient
		ForHTTP
		ForTask
	}
)

func (ForClient) client() {}
func (ForHTTP) http()     {}
func (ForTask) task()     {}
