// Command hookline is the one program: the roles, the laptop stack, the admin API and the
// client commands. It is the only package that imports every room; nothing imports it.
//
// Owns: flags, settings and their precedence, the Kafka options that all roles share, the
// admin listener, the order of starting and stopping, exit codes. It decides nothing about
// events: rooms do.
//
// Reads: hookline.yaml, HOOKLINE_... variables, flags. Writes: the topics endpoints and
// audit (admin API, and what a dispatcher disables), control (the ladder, once), a secret key in the data directory (dev).
//
// File map
//
//	main.go, cli.go        argv to command, signals, exit codes
//	config.go              the settings, resolved; layers.go where each value came from
//	settings.go            the table of all settings; value.go, secret.go how texts are read
//	reload.go              settings that follow a file or a command; secretstate.go what was read
//	limitsettings.go       limits and TLS of the ingest listener; ingesttls.go its certificate
//	sourcesettings.go      third-party sources and their secrets
//	configcmd.go           config check, config print
//	kafka.go               base client options; kafkametrics.go their metrics
//	topics.go              the specifications of all topics; topicscmd.go the commands
//	verify.go, ladder.go   what a start refuses
//	analytics.go           the role analytics and the embedded ClickHouse of dev
//	roles.go, parts.go     rooms, and the order in which they start and stop
//	gc.go                  how often a serving process collects garbage
//	serve.go               run; dev.go, demo.go the laptop; backlog.go when ingest is to refuse
//	admin.go               admin listener; auth.go, problem.go, openapi.go, console.go, health.go
//	endpoints.go           endpoint API over store.go; propagate.go when an answer may leave
//	endpointhealth.go      how an endpoint does, as far as the dispatcher of this process knows
//	endpointtest.go        one signed delivery on request, outside of the pipeline
//	dead.go, deadscan.go   dead letters by a bounded scan
//	questions.go           what is asked of ClickHouse; reports.go, reportcmd.go, story.go the reports
//	reconciler.go          the proof that nothing is lost; analyticscmd.go the tables
//	client.go              HTTP client of the client commands, one file per command group
//	benchcmd.go            bench on a stack of its own (childstack.go, child.go, benchpart.go)
//
// Exit codes: 0 ok, 1 failed, 2 wrong usage. Errors are one line on stderr.
//
// Non-obvious
//   - Roles start downstream first and stop upstream first: an event that was accepted always
//     finds a running dispatcher, and a stopping dispatcher gets nothing new from our ingest.
//   - An empty environment variable counts as unset, except where empty has a meaning
//     (HOOKLINE_EGRESS_ALLOW, HOOKLINE_KAFKA_BROKERS).
//   - Without a ClickHouse (clickhouse.dsn is off) there is no role analytics; with one that is
//     away the role waits, and the process stays ready: deliveries do not need it.
//   - "hookline engine" is no command of the command line: main.go turns it into the child process
//     of the embedded ClickHouse before anything is parsed or any signal is caught.
//   - A Kafka metrics hook of the plugin belongs to one client; sharing it panics at the second
//     client. kafkametrics.go shares one per role.
package main
