// Package examples shows the library from the outside: the lines that a service writes, as tests
// that compile and mostly run, and in the folder orders a whole shop.
package examples
