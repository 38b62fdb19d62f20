// Package several has the scenarios of faults that only several servers have, judged as all others are. It is nothing but
// tests.
package several
