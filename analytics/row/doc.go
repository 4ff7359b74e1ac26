// Package row holds rows of the ClickHouse tables by columns, as one block for one INSERT.
//
// A row is plain values: nothing here reads Kafka, a clock or a configuration, so the same rows in
// the same order are the same block. A block knows how large it is and on how many days its rows
// lie, which is what decides where a batch ends.
//
// # Files
//
//	block.go     Block, and what all three have: size, days, memory of the strings
//	attempts.go  events.go  dead.go   one table each: its row, its columns with their types
//	clamp.go     pure: times and texts that a column can take
//
// # Non-obvious
//
//   - A block owns its strings: those of a Kafka record share the memory of a whole fetch. Words that
//     repeat (tenants, types) are kept once, ids lie end to end in chunks.
//   - Reset gives the memory of the strings to the next rows. A block whose INSERT was given up may
//     still be read by the driver, so it is thrown away instead.
//   - The server refuses an INSERT into more than 100 partitions, and tables are partitioned by day
//     or month. Takes says when a row would be on one day too many.
package row
