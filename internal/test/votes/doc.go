// Package votes has a model of rule 24 of docs/protocol.md, and nothing but tests: locks over several independent nodes
// exclude one another, and their tokens rise.
//
//	go test -v ./internal/test/votes
//
// The model visits every state that two processes and three nodes can get into. Whatever is sent may arrive late, after its
// process has given up, or never. A node may forget all it has, once. In every state no two processes work by a deadline
// that is not over, every hold has a greater token than all before it, and a release does not wake a process that the same
// release is still in the way of.
package votes
