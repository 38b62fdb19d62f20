package rivermw

import (
	"context"

	"github.com/riverqueue/river/rivertype"

	"github.com/lockmw/go/internal/keyed"
	"github.com/lockmw/go/internal/option"
)

// A KeyFunc returns the key of the lock that a job needs. Any function with this signature will do; By builds one from parts. The
// same key means the same lock everywhere, including requests and plain functions.
//
// If it returns lockmw.ErrNoLock, the job runs without a lock. An empty key and an error that wraps lockmw.ErrInvalidKey cancel the
// job. Any other error fails the attempt.
type KeyFunc func(context.Context, *rivertype.JobRow) (string, error)

// A Part returns one part of a key, such as an ID. It is not a KeyFunc, because an ID alone does not name the kind of thing. By
// adds the kind.
type Part func(context.Context, *rivertype.JobRow) (string, error)

// By builds a KeyFunc from the kind of thing and the parts that identify it:
//
//	rivermw.By("customer", rivermw.Args(func(a InvoiceArgs) string { return a.Customer })) // customer:7
//
// The key has the format of lockmw.Key: parts are escaped, so that different parts never make the same key. An empty part cancels
// the job; it never means one lock for all jobs. The error of a part fails the attempt or cancels the job: see KeyFunc. By panics if
// kind is empty or too long for any key to fit into 1024 bytes, if there is no part, or if a part is nil.
func By(kind string, parts ...Part) KeyFunc {
	pattern := keyed.NewPattern("rivermw", "jobs", kind, parts)
	return func(ctx context.Context, job *rivertype.JobRow) (string, error) {
		return pattern.Key(func(part Part) (string, error) { return part(ctx, job) })
	}
}

// Args uses a field of the job's args as a part of the key. T is the type of the args, or a smaller struct with the field. If the
// args are not the JSON of a T, or are null, the job is cancelled. Args panics if field is nil.
func Args[T any](field func(T) string) Part {
	option.NotNil(field, "rivermw: Args: the function is nil")
	return func(_ context.Context, job *rivertype.JobRow) (string, error) {
		args, err := keyed.Decode[T]("args", job.EncodedArgs)
		if err != nil {
			return "", err
		}
		return field(args), nil
	}
}

// Const builds a KeyFunc for a kind of job that runs one at a time, whatever its args. The key is always lockmw.Key(kind, parts...).
// Const panics if the key is empty or longer than 1024 bytes.
func Const(kind string, parts ...string) KeyFunc {
	key := keyed.Const("rivermw", kind, parts)
	return func(context.Context, *rivertype.JobRow) (string, error) { return key, nil }
}
