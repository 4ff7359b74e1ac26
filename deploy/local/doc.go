// Package local is Kafka on a laptop.
package local
