package redistest

// MustBeEmpty is tested without a test that fails.
var MustBeEmpty = mustBeEmpty
