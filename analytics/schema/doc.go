// Package schema owns the tables in ClickHouse: their DDL, its versions, and the check that a
// server has what the sink writes and the reports read.
//
// A migration is a file migrations/NNNN_name.sql. 0001 is the schema as it was specified. A file
// that was released is never edited; a change is a new file, and it only adds: people query these
// tables directly, so no column is renamed, retyped or dropped.
//
// Which versions were applied is in the table schema_migrations, written after the last statement of
// a version. Every statement is one that may run twice (IF NOT EXISTS), because a process may die
// between two, and because two processes may migrate at once: both run everything, and the server
// does each once.
//
// # Files
//
//	migrations/   the statements
//	sql.go        pure: split into statements, name the database, choose the replicated form
//	columns.go    pure: the columns that the statements declare
//	migrate.go    Plan, Migrate
//	check.go      Check
//
// # Non-obvious
//
//   - The files say "hookline" for the database. It is replaced as a word of the language, never in
//     a string or a comment, and only by a name that needs no quotes.
//   - In a database whose engine is Replicated the tables get Replicated engines and their window
//     settings. The server then carries the DDL to all replicas.
//   - Check compares what is there with the files, not with schema_migrations: a table that an
//     operator has changed is found, columns that were added by hand are allowed.
//   - Deduplication needs its window on the raw table and on every rollup; Check refuses a table
//     without.
package schema
