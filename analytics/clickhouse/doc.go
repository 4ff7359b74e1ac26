// Package clickhouse is how hookline talks to a ClickHouse server, and what it has to know of it.
//
// Owns: the options of the connection pool, the one way to insert (Inserter), the meaning of
// errors (ClassOf) and what a server must be able to do (Inspect, Probe). Knows no table of ours
// but by name and no Kafka.
//
// # Inserts
//
// An insert is one block under one deduplication token: the server that has seen the token drops
// the block, in the table and in everything that its materialized views fill. So an insert
// whose outcome is unknown is repeated, the same rows under the same token, until it is known.
//
// # Error classes
//
// Retry is everything that time may heal: no connection, an overloaded server, a part limit. Stop
// is what an operator has to heal: tables, columns or rights that are not there. Both are repeated;
// the difference is who is told. A code that is not known here is Retry: an alarm that comes late,
// from a batch that does not get old, is better than one that needs a new version to go away.
//
// # Files
//
//	open.go     DSN to connection pool
//	server.go   version and known settings
//	probe.go    does a repeated insert count once, rollups included
//	insert.go   Inserter
//	errors.go   Class, ClassOf, Code
//
// # Non-obvious
//
//   - Server defaults have moved more than once (async_insert on by default since 26.2, views not
//     deduplicated from 24.7 to 26.x), so an insert carries every setting that matters. An unknown
//     setting fails an insert, so only those are sent that system.settings names.
//   - clickhouse-go's WithCloseOnFlush swallows the server's error at the end of an INSERT
//     (v2.51.0), and a batch that is prepared early holds a connection or costs an empty INSERT.
//     Here a batch is prepared, filled from columns and sent in one short step.
//   - A batch's context is that of PrepareBatch, so one deadline covers the whole step.
//   - Over HTTP a column list with types saves the DESCRIBE TABLE that would precede each insert.
package clickhouse
