package keyed

import "fmt"

// Const returns the key of Join for a Const of the package pkg. It panics if no lock can have that key.
func Const(pkg, kind string, parts []string) string {
	key := Join(kind, parts...)
	if err := Check(key); err != nil {
		panic(fmt.Sprintf("%s: Const(%.20q, …): %v", pkg, kind, err))
	}
	return key
}
