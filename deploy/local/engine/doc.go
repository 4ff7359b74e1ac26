// Package engine runs a ClickHouse engine on a laptop: libchdb.so in a child process of the same
// binary, which speaks ClickHouse's HTTP interface on loopback. The driver clickhouse-go, curl and
// dashboards use it as they would a server.
//
// Owns: the child, its life and its data directory; HTTP requests, settings, parameters, formats,
// compression, exceptions of that interface. Does not own: schemas, queries, tokens (package analytics).
//
// Reads and writes its data directory: db/ is the engine's, engine.xml is written at each start,
// engine.lock keeps a second engine out.
//
// File map
//
//	engine.go              Start, Run (supervision), Close: the parent's side
//	child.go               one life of the process; process_linux.go what only Linux can
//	main.go                Main: the child's side; lock.go the data directory; find.go the library
//	library.go             the C interface of libchdb.so; session.go a connection that lives for one query
//	server.go              HTTP to query; gate.go how many run and wait
//	request.go             what a request says; statement.go what a query says of its format
//	answer.go              result to HTTP; exception.go errors in ClickHouse's form
//	native.go              Native blocks from one protocol revision to another
//
// Bounds: 4 queries at once, 64 wait up to 30 s (then code 202), a request of 256 MiB, a result that
// cannot be streamed of 256 MiB, 1 GiB for the engine (max_server_memory_usage) and 256 MiB as the soft
// limit of the Go side. A child takes 230 MiB of memory when it has started, most of it the library itself, and
// about 310 MiB with the tables of analytics and a trickle of rows. There are no system.*_log tables.
//
// What if it dies here? A kill in the middle of an insert may leave its block in some tables of a chain
// of views and not in others; the same insert with the same deduplication token completes it. The
// parent starts the child again on the same address. The child cannot outlive its parent: the kernel
// kills it with the thread that started it, and its standard input ends.
//
// Non-obvious
//   - One query has one connection: settings, temporary tables and USE of a query never reach the next,
//     and opening one takes 0.15 ms. So there are no sessions (session_id is refused).
//   - The engine formats each piece of a stream as a document of its own. Formats with a head or a foot
//     are therefore not streamed but made whole, within the bound above.
//   - The engine writes Native at revision 0. Blocks are written anew at the client's revision; at
//     revision 0 a DateTime loses the name of its time zone (not its instant), and columns that the
//     driver cannot decode, such as aggregate states, are refused at any other revision.
//   - Cancel: a query whose client goes is killed. An insert is cancelled while its data comes, and
//     then nothing of its last block is written; with all its data there it runs to its end, since a
//     block that is in the table and not yet in every view would be half applied.
//   - KILL finds a query by a tag in a setting that means nothing to it (query_cache_tag): the engine
//     makes up query ids itself.
//   - An exception after the first bytes of an answer is written in ClickHouse's frame, and the
//     connection is broken off.
//   - Closing the last connection ends the engine, so one is kept.
package engine
