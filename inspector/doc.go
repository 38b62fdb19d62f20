// Package inspector serves web pages that show the locks in Redis: holders, waiters and how long they have waited. Operators whom you
// authorize can also release a lock by force.
//
//	insp, err := lockmw.NewInspector(rdb)
//	if err != nil {
//		return err
//	}
//	r.With(oncallOnly).Mount("/ops/locks", inspector.Handler(insp))
//
// The handler has no authentication. Put your own around it, because the pages show keys, labels and host names. Without
// WithForceUnlock the handler only reads.
//
// # Pages
//
//	./                 all locks, a hundred at a time: ?q= part of a key, process or label, ?state=, ?mode=, ?sort=, ?page=
//	key?key=user:42    one lock: holders, queue, kept places, recorded events
//	process            all processes; ?process=web-1 selects one host or one process: its holds and waits
//	redis              the server, or the masters of a Cluster; the prefixes in use
//
// The pages work without JavaScript: a reload shows the new state. With JavaScript they update themselves through server-sent events.
// A stream lasts a minute and is then opened again, so http.Server.Shutdown waits at most a minute.
//
// # JSON
//
// Programs get the same data, with the same parameters: locks.json, key.json?key=user:42, process.json, trends.json and redis.json.
// Times are in RFC 3339, by the server's clock. Durations are in milliseconds, and their names end in _ms. A href leads to the JSON of
// one lock, relative to the answer. Field names never change; new fields may appear.
//
// A state is one of contended, held, waiting (no holder), lingering (released, but a minimum hold keeps the key taken), kept (only kept
// places), unknown (cannot be read) and free. While Redis cannot be read, JSON and pages have status 503, with the error and the last
// known state of as_of. If no lock was ever read, totals is null. An invalid query, such as state=bogus, gets 400.
//
// # Cost
//
// The handler reads Redis once for all viewers, and only while there are viewers. All reads together take a small part of the time.
// With few locks, everything is read every second. With 10,000 locks, all of them are read once in a minute or two, and locks with
// waiters about every two seconds.
package inspector
