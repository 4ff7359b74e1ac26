// Package row holds rows of the ClickHouse tables by columns.
package row

// MaxRows is the most that a block takes: one INSERT must be one block of the server, whose
// limit is 1,048,449 rows by default, and a client's memory is bounded by it.
const MaxRows = 200_000
