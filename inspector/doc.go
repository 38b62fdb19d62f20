// Package inspector serves a page about the locks in Redis: who holds them, who waits and since when, and, for those who may, a
// way to take a lock away from its holder.
//
//	insp, err := lockmw.NewInspector(rdb)
//	if err != nil {
//		return err
//	}
//	r.With(oncallOnly).Mount("/ops/locks", inspector.Handler(insp))
//
// What can go wrong: the handler has no authentication of its own. Put yours around it, as the page shows keys, labels and the names
// of hosts. Without WithForceUnlock it only reads.
//
// # Pages
//
//	./                 all locks, a hundred at a time: ?q= part of a key, process or label, ?state=, ?mode=, ?sort=, ?page=
//	key?key=user:42    one lock: holders, queue, kept places, recorded events
//	process            all processes, or what process?process=web-1 names: a host, or one process; what they hold and wait for
//	redis              the server, or the masters of a Cluster; the prefixes in use
//
// They work without scripts: a reload shows the new state. With scripts they change by themselves, by server-sent events. Such a
// stream lasts a minute and is opened again, so that http.Server.Shutdown waits a minute at most.
//
// # JSON
//
// The same for programs, with the same parameters: locks.json, key.json?key=user:42, process.json, trends.json and redis.json. Times are in RFC 3339, by
// the server's clock; durations are in milliseconds and their names end in _ms; href leads to the JSON of one lock and is
// relative to the answer. Names stay as they are; new ones may come. A state is one of contended, held, waiting (nobody holds it),
// lingering (unlocked, and a minimum hold keeps it taken), kept (there are only kept places), unknown (it cannot be read) and free.
// While Redis cannot be read the status is 503, also of pages, and with an error comes what was known at as_of. If no lock was ever
// read, totals is null. A query that makes no sense, such as state=bogus, is 400.
//
// # Cost
//
// Everything is read once for all viewers, and only while somebody looks. All reading together takes a small part of the
// time: with few locks everything is read every second; with 10,000, all of them once in a minute or two and those that are waited
// for every two seconds or so.
package inspector
