// Package docs checks the documents, and contains only tests: every link leads somewhere, every block of Go compiles, named
// tests exist, the ACL line is complete and minimal, and sentences are short.
package docs
