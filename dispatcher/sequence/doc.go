// Package sequence knows the numbers of events: sequence = base + offset in events. The base belongs
// to the id of the topic events and lies in control; whoever sees a topic first makes it, by
// compare-and-set, so that every process and every later run computes the same numbers.
//
// Used by the dispatcher (Webhook-Sequence) and by the analytics sink (the column sequence).
package sequence
