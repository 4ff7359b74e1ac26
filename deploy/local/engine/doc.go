// Package engine runs a ClickHouse engine on a laptop: libchdb.so in a child process of the same
// binary, which speaks ClickHouse's HTTP interface on loopback.
package engine
