package report

import "github.com/lockmw/go/internal/bench/workload"

// scaleGoals are the goals of figures that should not grow with the amount of work, or not faster than it.
func scaleGoals() []Goal {
	list := append(noticedGoals(), inboxGoals()...)
	return append(append(list, listGoals()...), connectionGoals()...)
}

// noticedGoals bound how long lost messages and dead processes stay unnoticed, by the number of keys that are waited for.
func noticedGoals() (list []Goal) {
	for _, kind := range []struct {
		name, what string
		limit      float64
	}{
		{"lost", "lost message: the waiter holds its key after, ms", 2000},
		{"dead", "dead waiter in front: the next one holds its key after, ms", 4000},
	} {
		sizes := sizesOf(kind.name, 10, 100, 1000)
		for _, w := range sizes {
			list = append(list, Goal{w.name, kind.what, kind.limit, false, figure(w.name, workload.NoticedMillis)})
		}
		list = append(list, Goal{sizes[2].name, "exponent of that time", 0.2, false, growth(sizes, valueOf(workload.NoticedMillis))})
	}
	return append(list, Goal{"lost10k", "lost message: the waiter holds its key after, ms", 5000, false, figure("lost10k", workload.NoticedMillis)})
}

// inboxGoals bound the channels of a process that waits in a Cluster: one for each slot in use. See docs/performance-ledger.md.
func inboxGoals() (list []Goal) {
	sizes := sizesOf("inboxes", 100, 1000, 10_000)
	for _, w := range sizes {
		list = append(list,
			Goal{w.name, "channels for each slot in use", 1, false, figure(w.name, workload.ChannelsPerSlot)},
			Goal{w.name, "SSUBSCRIBE for each channel after a loss", 1, false, figure(w.name, workload.SubscribesPer)},
		)
	}
	return append(list, Goal{sizes[1].name, "exponent of channels of a node", 1.1, false, growth(sizes, valueOf(workload.ChannelsPerNode))})
}

// listGoals bound what lists of locks cost. The passes are explained in docs/performance-ledger.md.
func listGoals() (list []Goal) {
	locks := sizesOf("list", 1000, 10_000, 100_000)
	others := []sized{{"list10k", 10_000}, {"list10k-among100k", 110_000}, {"list10k-among1m", 1_010_000}}
	for _, w := range append(locks, others[1:]...) {
		list = append(list, Goal{w.name, "passes of SCAN", 2, false, figure(w.name, workload.Passes)})
	}
	cpu := func(t table, w sized) float64 {
		return t.value(w.name, ours, RedisCPU) * t.value(w.name, ours, workload.Listed)
	}
	list = append(list,
		Goal{"list10k", "exponent of the server's time, by locks", 1.1, false, growth(locks, cpu)},
		Goal{"list10k-among100k", "exponent of the server's time, by other keys", 1, false, growth(others, cpu)},
	)
	contended := sizesOf("top", 10_000, 100_000, 1_000_000)
	for i, limit := range []float64{1000, 1000, 5000} {
		w := contended[i].name
		list = append(list,
			Goal{w, "contended locks are found after, ms", limit, false, figure(w, workload.ListMillis)},
			Goal{w, "passes of SCAN", 1, false, figure(w, workload.Passes)},
		)
	}
	return append(list, Goal{"top100k", "exponent of the server's time, by other keys", 1.1, false, growth(contended, cpu)})
}

// connectionGoals bound the connections of a process, by the number of its goroutines.
func connectionGoals() []Goal {
	alone := sizesOf("connections", 1, 8, 64)
	var cluster []sized
	for _, w := range alone {
		cluster = append(cluster, sized{w.name + "-cluster", w.n})
	}
	first, last, lastCluster := alone[0].name, alone[2].name, cluster[2].name
	return []Goal{
		{first, "connections for the first lock", 1, false, figure(first, workload.FirstConns)},
		{first, "commands for the first lock", 10, false, figure(first, workload.FirstCommands)},
		{first, "connections", 3, false, figure(first, workload.Conns)},
		{last, "connections", 10, false, figure(last, workload.Conns)},
		{last, "exponent of connections", 0.5, false, growth(alone, valueOf(workload.Conns))},
		{cluster[0].name, "connections to each node", 3, false, figure(cluster[0].name, workload.ConnsPerNode)},
		{lastCluster, "connections to each node", 13, false, figure(lastCluster, workload.ConnsPerNode)},
		{lastCluster, "exponent of connections to each node", 0.7, false, growth(cluster, valueOf(workload.ConnsPerNode))},
	}
}

// sizesOf returns the workloads of that name with these sizes.
func sizesOf(name string, sizes ...int) (list []sized) {
	for _, n := range sizes {
		list = append(list, sized{workload.SizeName(name, n), float64(n)})
	}
	return list
}

// valueOf measures a figure of lockmw itself.
func valueOf(name string) func(table, sized) float64 {
	return func(t table, w sized) float64 { return t.value(w.name, ours, name) }
}
