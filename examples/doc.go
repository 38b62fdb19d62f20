// Package examples shows the library from the outside: the lines that a service writes, as tests
// that compile and mostly run, in the folder recipes what mounts locks in other frameworks, in the folder orders
// a whole shop, and in the folder market what guards a marketplace other than locks, beside them.
package examples
