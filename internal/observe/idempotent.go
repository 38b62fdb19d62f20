package observe

// A CallOutcome is the end of a call of package idempotency. lockmw.IdempotentCall explains each.
type CallOutcome string

// The outcomes of calls. In the first three the work ran in this call; in the others it did not.
const (
	CallKept       CallOutcome = "kept"
	CallForgotten  CallOutcome = "forgotten"
	CallUnfinished CallOutcome = "unfinished"
	CallReplayed   CallOutcome = "replayed"
	CallDone       CallOutcome = "done"
	CallInFlight   CallOutcome = "in_flight"
	CallReused     CallOutcome = "reused"
	CallUnknown    CallOutcome = "unknown"
	CallExpired    CallOutcome = "expired"
	CallCanceled   CallOutcome = "canceled"
	CallFailed     CallOutcome = "error"
)

// CallOutcomes are all outcomes of calls.
var CallOutcomes = []CallOutcome{
	CallKept, CallForgotten, CallUnfinished, CallReplayed, CallDone, CallInFlight, CallReused, CallUnknown, CallExpired,
	CallCanceled, CallFailed,
}
