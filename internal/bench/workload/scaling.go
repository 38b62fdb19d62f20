package workload

import "fmt"

// scaling are workloads of several sizes. Their figures should not grow with the size, or not faster than it.
func scaling() []Workload {
	list := []Workload{
		listing(1000, 0), listing(10_000, 0), listing(100_000, 0), listing(10_000, 100_000), listing(10_000, 1_000_000),
		top(10_000), top(100_000), top(1_000_000),
		lost(lostLeast), lost(100), lost(lostMost), lost(10_000), dead(lostLeast), dead(100), dead(lostMost),
		inboxes(100), inboxes(inboxesMost), inboxes(10_000),
	}
	for _, n := range []int{connectionsLeast, 8, connectionsMost} {
		list = append(list, connections(n), onCluster(connections(n)))
	}
	return list
}

// SizeName returns the name of a workload with its size.
func SizeName(name string, n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%s%dm", name, n/1_000_000)
	case n >= 1000:
		return fmt.Sprintf("%s%dk", name, n/1000)
	}
	return fmt.Sprint(name, n)
}
