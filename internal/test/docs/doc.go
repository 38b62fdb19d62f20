// Package docs checks what the documents say, and is nothing but tests: every link leads somewhere, every block of Go is
// code that compiles, tests that are named exist, the ACL line is neither too short nor too long, and sentences are short.
package docs
