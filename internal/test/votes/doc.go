// Package votes is a model of rule 24 of docs/protocol.md, and contains only tests: locks over several independent nodes
// exclude one another, and their tokens rise.
//
//	go test -v ./internal/test/votes
//
// The model visits every state that two processes and three nodes can get into. Messages may arrive late, after their
// process has given up, or never. A node may lose its data once. In every state no two processes work before their
// deadlines, every hold has a greater token than all earlier ones, and no release wakes a process that the same release
// still blocks at another node.
package votes
