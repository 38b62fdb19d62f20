// Package examples shows the library from the outside: the lines that a service writes, as tests
// that compile and mostly run, in the folder recipes what mounts locks in other frameworks, and in the folder orders
// a whole shop.
package examples
