// Package bench measures a running hookline from outside: it publishes over HTTP, receives
// over HTTP, and judges by ids. README.md beside this file holds the method; "hookline bench"
// is the command.
//
// A scenario creates its endpoints through the admin API, points them at a receiver in this
// process, runs the load, waits until everything that was accepted has ended, and removes the
// endpoints. A bare baseline (ingest -> broker -> net/http worker -> receiver, nothing
// else) runs on the same broker with the same load, so that a figure can be read without
// knowing the machine.
//
// File map: options.go what to run and against what; run.go the order of a scenario;
// e2e.go the scenario e2e; ingest.go the scenario ingest with its rounds, ingestload.go its
// loads, ingestresult.go its figures, eventlog.go the log that is read back, bare.go and
// baregroups.go the process that it is compared with; load.go one load with its drain and verdict; baseline.go the
// bare pipeline; admin.go the admin API as far as the harness needs it; usage.go CPU and
// memory; machine.go the machine; result.go the figures; table.go, report.go, chart.go and
// raw.go how they are shown; receiver, loadgen, verify: the parts.
//
// Non-obvious:
//   - The harness shares the machine with what it measures. Its own cost is part of every
//     figure except those named stack; README.md says how much it is.
//   - Usage is read before the verdict is computed: the sets of ids are large.
//   - A closed loop fills the topic faster than deliveries drain it, so its e2e latency is the
//     length of a queue. Latency is asked for with a rate.
//   - Scenario ingest delivers nothing: "delivered" of its result is what was found in the log.
//   - The run uses an event type of its own, so other endpoints of the tenant get nothing
//     unless they subscribe to everything.
package bench
