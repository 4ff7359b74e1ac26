package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/ingest/event"
)

type topicsCmd struct {
	Create   topicsCreateCmd   `cmd:"" help:"Create what is missing; changes nothing that exists."`
	Verify   topicsVerifyCmd   `cmd:"" help:"Compare the cluster with the settings; exit 1 on what a start refuses."`
	Describe topicsDescribeCmd `cmd:"" help:"Show the topics as they are, or as they would be made."`
}

// topicTimeout bounds a topic command: a cluster that needs longer is in trouble.
const topicTimeout = 2 * time.Minute

// cluster is an administrative connection.
type cluster struct {
	cfg   *Config
	base  []kgo.Opt
	cl    *kgo.Client
	adm   *kadm.Client
	specs []event.Topic
	log   *slog.Logger
}

// openCluster connects and waits for a broker.
func openCluster(ctx context.Context, c *Config, base []kgo.Opt, specs []event.Topic, log *slog.Logger) (*cluster, error) {
	// kadm answers from a cache that is refreshed no more often than this: with the default of
	// 5 s a topic that was just created stays unknown for so long.
	cl, err := kgo.NewClient(append(slices.Clone(base), kgo.MetadataMinAge(20*time.Millisecond))...)
	if err != nil {
		return nil, fmt.Errorf("open Kafka client: %w", err)
	}
	if err := reachBrokers(ctx, cl, c.Kafka); err != nil {
		cl.Close()
		return nil, err
	}
	return &cluster{cfg: c, base: base, cl: cl, adm: kadm.NewClient(cl), specs: specs, log: log}, nil
}

func (k *cluster) close() { k.cl.Close() }

// create makes the missing topics, waits for their leaders and keeps the ladder.
func (k *cluster) create(ctx context.Context) (made []string, err error) {
	have, err := readTopics(ctx, k.adm, k.cfg.Kafka.Prefix, k.specs)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, t := range k.specs {
		if _, ok := have[t.Suffix]; ok {
			continue
		}
		configs := make(map[string]*string, len(t.Configs))
		for key, v := range t.Configs {
			configs[key] = &v
		}
		name := t.Name(k.cfg.Kafka.Prefix)
		resp, err := k.adm.CreateTopic(ctx, t.Partitions, k.cfg.Topics.Replication, configs, name)
		switch {
		case errors.Is(err, kerr.TopicAlreadyExists): // another process was faster
		case err != nil:
			errs = append(errs, fmt.Errorf("create topic %s: %w %s", name, err, resp.ErrMessage))
		default:
			made = append(made, name)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return made, err
	}
	if err := k.waitLeaders(ctx); err != nil {
		return made, err
	}
	_, err = keepLadder(ctx, k.base, k.cfg.Kafka.Prefix, k.cfg.Retrytiers.Ladder, k.log)
	return made, err
}

// waitLeaders returns once every partition has a leader: a cluster acknowledges a creation
// before all brokers have applied it.
func (k *cluster) waitLeaders(ctx context.Context) error {
	retry := newBackoff(20*time.Millisecond, time.Second)
	for {
		have, err := readTopics(ctx, k.adm, k.cfg.Kafka.Prefix, k.specs)
		if err == nil {
			ready := len(have) == len(k.specs)
			for _, s := range have {
				ready = ready && s.Leaderless == 0 && s.Partitions > 0
			}
			if ready {
				return nil
			}
		}
		if waitErr := retry.wait(ctx); waitErr != nil {
			return fmt.Errorf("wait for the topics' leaders: %w", errors.Join(waitErr, err))
		}
	}
}

// verify returns every difference between the cluster and the settings.
func (k *cluster) verify(ctx context.Context) ([]topicFault, error) {
	have, err := readTopics(ctx, k.adm, k.cfg.Kafka.Prefix, k.specs)
	if err != nil {
		return nil, err
	}
	faults := compareTopics(k.specs, have, k.cfg.Kafka.Prefix, k.cfg.Ingest.MaxBody)
	if slices.ContainsFunc(faults, func(f topicFault) bool { return f.Fatal }) {
		return faults, nil // control may not even be there
	}
	kept, ok, err := storedLadder(ctx, k.cl, k.cfg.Kafka.Prefix)
	if err != nil {
		return nil, err
	}
	if !ok {
		return append(faults, topicFault{Topic: k.cfg.Kafka.Prefix + "control", Text: "keeps no ladder; run hookline topics create", Fatal: true}), nil
	}
	return append(faults, compareLadder(k.cfg.Kafka.Prefix, kept, k.cfg.Retrytiers.Ladder)...), nil
}

// topicFlags are what the three commands share.
type topicFlags struct {
	settingFlags
	JSON bool `help:"Print JSON."`
}

func (f *topicFlags) open(a *app) (context.Context, func(), *cluster, error) {
	c, err := a.load(f.values(), production, "kafka.brokers")
	if err != nil {
		return nil, nil, nil, err
	}
	log := newLogger(a.stderr, logConfig{Level: "error", Format: "text"})
	base, err := newKafkaBase(c.Kafka, log, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(a.ctx, topicTimeout)
	k, err := openCluster(ctx, c, base.options("admin"), topicSpecs(c), log)
	if err != nil {
		cancel()
		return nil, nil, nil, err
	}
	return ctx, func() { k.close(); cancel() }, k, nil
}

type topicsCreateCmd struct{ topicFlags }

func (c *topicsCreateCmd) Run(a *app) error {
	ctx, done, k, err := c.open(a)
	if err != nil {
		return err
	}
	defer done()
	made, err := k.create(ctx)
	if err != nil {
		return err
	}
	faults, err := k.verify(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		if made == nil {
			made = []string{}
		}
		if err := json.NewEncoder(a.stdout).Encode(map[string]any{"created": made, "faults": nonNil(faults)}); err != nil {
			return err
		}
		return fatalFaults(faults)
	}
	for _, name := range made {
		fmt.Fprintln(a.stdout, "created "+name)
	}
	fmt.Fprintf(a.stdout, "%d topics created, %d were there\n", len(made), len(k.specs)-len(made))
	for _, f := range faults {
		if !f.Fatal {
			fmt.Fprintln(a.stdout, "note: "+f.String())
		}
	}
	return fatalFaults(faults)
}

type topicsVerifyCmd struct{ topicFlags }

func (c *topicsVerifyCmd) Run(a *app) error {
	ctx, done, k, err := c.open(a)
	if err != nil {
		return err
	}
	defer done()
	faults, err := k.verify(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := json.NewEncoder(a.stdout).Encode(map[string]any{"ok": fatalFaults(faults) == nil, "faults": nonNil(faults)}); err != nil {
			return err
		}
		return fatalFaults(faults)
	}
	for _, f := range faults {
		if !f.Fatal {
			fmt.Fprintln(a.stdout, "note: "+f.String())
		}
	}
	if err := fatalFaults(faults); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "ok: %d topics under %s\n", len(k.specs), k.cfg.Kafka.Prefix)
	return err
}

type topicsDescribeCmd struct{ topicFlags }

func (c *topicsDescribeCmd) Run(a *app) error {
	ctx, done, k, err := c.open(a)
	if err != nil {
		return err
	}
	defer done()
	have, err := readTopics(ctx, k.adm, k.cfg.Kafka.Prefix, k.specs)
	if err != nil {
		return err
	}
	list := make([]topicState, 0, len(have))
	for _, t := range k.specs {
		s, ok := have[t.Suffix]
		if !ok {
			continue
		}
		own := map[string]string{}
		for key := range t.Configs {
			if v, ok := s.Configs[key]; ok {
				own[key] = v
			}
		}
		s.Configs = own
		list = append(list, s)
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(map[string]any{"items": list})
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tPARTITIONS\tREPLICAS\tCONFIGS")
	for _, s := range list {
		pairs := make([]string, 0, len(s.Configs))
		for key, v := range s.Configs {
			pairs = append(pairs, key+"="+v)
		}
		slices.Sort(pairs)
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", s.Name, s.Partitions, s.Replication, strings.Join(pairs, " "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if missing := len(k.specs) - len(list); missing > 0 {
		fmt.Fprintf(a.stdout, "%d topics do not exist yet; hookline topics create makes them\n", missing)
	}
	return nil
}

// nonNil makes an empty list print as [] instead of null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
