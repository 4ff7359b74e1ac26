package main

import (
	"fmt"
	"slices"
	"strings"
)

// cli is the command line. Each command is a struct with a Run method, in the file of its group.
type cli struct {
	Config string `help:"Settings file; without it ./hookline.yaml is read if present." placeholder:"FILE"`

	Dev       devCmd       `cmd:"" help:"Run everything in one process on loopback, with an embedded broker and an embedded ClickHouse."`
	Run       runCmd       `cmd:"" help:"Run production roles against a Kafka cluster."`
	Topics    topicsCmd    `cmd:"" help:"Create, verify or describe the topics."`
	Endpoints endpointsCmd `cmd:"" help:"Manage endpoints."`
	Events    eventsCmd    `cmd:"" help:"Publish events, and tell what became of them."`
	DLQ       dlqCmd       `cmd:"" name:"dlq" help:"Look at dead letters."`
	Report    reportCmd    `cmd:"" help:"Ask how deliveries go."`
	Analytics analyticsCmd `cmd:"" help:"Manage the tables in ClickHouse."`
	Bench     benchCmd     `cmd:"" help:"Measure a scenario on a stack of its own."`
	BenchPart benchPartCmd `cmd:"" name:"bench-part" hidden:"" help:"A process that bench starts."`
	Listen    listenCmd    `cmd:"" help:"Receive webhooks, verify them and print one line each."`
	ConfigCmd configCmd    `cmd:"" name:"config" help:"Check or print the settings."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

// settingFlags are the settings that have a flag of their own; --set reaches all others.
type settingFlags struct {
	DataDir      string            `help:"Where embedded parts keep data." placeholder:"DIR" group:"Settings"`
	IngestAddr   string            `help:"Ingest listener." placeholder:"HOST:PORT" group:"Settings"`
	AdminAddr    string            `help:"Admin listener." placeholder:"HOST:PORT" group:"Settings"`
	KafkaBrokers string            `help:"Seed brokers." placeholder:"HOST:PORT,..." group:"Settings"`
	Set          map[string]string `help:"Any setting by its path in the file, such as --set ingest.max_body=1MiB." mapsep:"none" placeholder:"KEY=VALUE" group:"Settings"`
}

func (f *settingFlags) values() flagValues {
	out := flagValues{}
	for key, v := range map[string]string{
		"data_dir": f.DataDir, "ingest.addr": f.IngestAddr, "admin.addr": f.AdminAddr, "kafka.brokers": f.KafkaBrokers,
	} {
		if v != "" {
			out[key] = v
		}
	}
	for key, v := range f.Set {
		out[strings.TrimSpace(key)] = v
	}
	return out
}

// load reads the settings for a profile; the error names every problem. With needs, only
// those settings must be there: a command that never serves has no use for an admin token.
func (a *app) load(flags flagValues, p profile, needs ...string) (*Config, error) {
	l, err := readLayers(a.cli.Config, a.environ, flags)
	if err != nil {
		return nil, err
	}
	c, problems := l.decode(p)
	var texts []string
	for _, p := range problems {
		if p.missing && len(needs) > 0 && !slices.Contains(needs, p.Key) {
			continue
		}
		texts = append(texts, p.String())
	}
	if len(texts) > 0 {
		return nil, fmt.Errorf("settings: %s", strings.Join(texts, "; "))
	}
	return c, nil
}
