package main

import (
	"fmt"
	"strings"
)

// cli is the command line. Each command is a struct with a Run method, in the file of its group.
type cli struct {
	Config string `help:"Settings file; without it ./hookline.yaml is read if present." placeholder:"FILE"`

	ConfigCmd configCmd  `cmd:"" name:"config" help:"Check or print the settings."`
	Version   versionCmd `cmd:"" help:"Print the version."`
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

// load reads the settings for a profile; the error names every problem.
func (a *app) load(flags flagValues, p profile) (*Config, error) {
	l, err := readLayers(a.cli.Config, a.environ, flags)
	if err != nil {
		return nil, err
	}
	c, problems := l.decode(p)
	if len(problems) > 0 {
		texts := make([]string, len(problems))
		for i, p := range problems {
			texts[i] = p.String()
		}
		return nil, fmt.Errorf("settings: %s", strings.Join(texts, "; "))
	}
	return c, nil
}
