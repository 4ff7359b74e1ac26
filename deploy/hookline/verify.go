package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// topicFault is one difference between the cluster and the specification. A start refuses
// the fatal ones: with them events would be lost, reordered or stuck.
type topicFault struct {
	Topic string `json:"topic"`
	Text  string `json:"fault"`
	Fatal bool   `json:"fatal"`
}

func (f topicFault) String() string { return f.Topic + ": " + f.Text }

// topicState is a topic as the cluster has it.
type topicState struct {
	Name        string            `json:"topic"`
	Partitions  int32             `json:"partitions"`
	Replication int               `json:"replication_factor"`
	Leaderless  int               `json:"partitions_without_leader"`
	Configs     map[string]string `json:"configs"`
}

// readTopics returns the state of the specified topics that exist, by suffix.
func readTopics(ctx context.Context, adm *kadm.Client, prefix string, specs []event.Topic) (map[string]topicState, error) {
	names := make([]string, len(specs))
	for i, t := range specs {
		names[i] = t.Name(prefix)
	}
	details, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	out := map[string]topicState{}
	var found []string
	for _, t := range specs {
		d, ok := details[t.Name(prefix)]
		if !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			continue
		}
		if d.Err != nil {
			return nil, fmt.Errorf("list topic %s: %w", t.Name(prefix), d.Err)
		}
		s := topicState{Name: t.Name(prefix), Partitions: int32(len(d.Partitions)), Replication: d.Partitions.NumReplicas(), Configs: map[string]string{}}
		for _, p := range d.Partitions {
			if p.Leader < 0 {
				s.Leaderless++
			}
		}
		out[t.Suffix] = s
		found = append(found, s.Name)
	}
	if len(found) == 0 {
		return out, nil
	}
	configs, err := adm.DescribeTopicConfigs(ctx, found...)
	if err != nil {
		return nil, fmt.Errorf("describe topic configs: %w", err)
	}
	for _, rc := range configs {
		if rc.Err != nil {
			return nil, fmt.Errorf("describe configs of %s: %w", rc.Name, rc.Err)
		}
		for _, c := range rc.Configs {
			out[strings.TrimPrefix(rc.Name, prefix)].Configs[c.Key] = c.MaybeValue()
		}
	}
	return out, nil
}

// compareTopics is the judgement of topics verify and of every start. It is pure.
func compareTopics(specs []event.Topic, have map[string]topicState, prefix string, maxBody int64) []topicFault {
	var out []topicFault
	add := func(suffix string, fatal bool, format string, args ...any) {
		out = append(out, topicFault{Topic: prefix + suffix, Text: fmt.Sprintf(format, args...), Fatal: fatal})
	}
	for _, spec := range specs {
		s, ok := have[spec.Suffix]
		if !ok {
			add(spec.Suffix, true, "does not exist; run hookline topics create")
			continue
		}
		if s.Leaderless > 0 {
			add(spec.Suffix, false, "%d partitions have no leader now", s.Leaderless)
		}
		comparePartitions(spec, s, add)
		compareConfigs(spec, s, maxBody, add)
	}
	events, ok := have[event.EventsSuffix]
	for _, suffix := range coPartitioned() {
		if s, there := have[suffix]; ok && there && s.Partitions != events.Partitions {
			add(suffix, true, "has %d partitions and %s%s has %d; both must have the same number, since partition p of each belongs to one owner",
				s.Partitions, prefix, event.EventsSuffix, events.Partitions)
		}
	}
	return out
}

type addFault = func(suffix string, fatal bool, format string, args ...any)

func comparePartitions(spec event.Topic, s topicState, add addFault) {
	if s.Partitions == spec.Partitions {
		return
	}
	switch spec.Suffix {
	case endpoint.Suffix, tier.ControlSuffix, tier.EndpointStateSuffix, tier.AuditSuffix:
		add(spec.Suffix, true, "has %d partitions, must have 1: it has one order", s.Partitions)
	default:
		if slices.Contains(coPartitioned(), spec.Suffix) || spec.Partitions == 0 {
			add(spec.Suffix, false, "has %d partitions, the settings say %d; the topic decides", s.Partitions, spec.Partitions)
			return
		}
		// The partitions of a retry topic are delay slots of the ladder.
		retry := spec.Configs["message.timestamp.type"] == "LogAppendTime"
		add(spec.Suffix, retry, "has %d partitions, the settings say %d", s.Partitions, spec.Partitions)
	}
}

func compareConfigs(spec event.Topic, s topicState, maxBody int64, add addFault) {
	for key, want := range spec.Configs {
		got, ok := s.Configs[key]
		if !ok || got == want {
			continue
		}
		switch key {
		case "cleanup.policy":
			add(spec.Suffix, true, "cleanup.policy is %q, must be %q: records would be lost", got, want)
		case "message.timestamp.type":
			add(spec.Suffix, true, "message.timestamp.type is %q, must be %q: delays count from it", got, want)
		case "max.message.bytes":
			n, err := strconv.ParseInt(got, 10, 64)
			if need := maxBody + recordRoom; err != nil || n < need {
				add(spec.Suffix, true, "max.message.bytes is %s, a body of %d bytes needs %d; raise it or lower ingest.max_body", got, maxBody, need)
			} else {
				add(spec.Suffix, false, "max.message.bytes is %s, the settings say %s", got, want)
			}
		default:
			add(spec.Suffix, false, "%s is %q, the settings say %q", key, got, want)
		}
	}
}

// fatalFaults returns an error that names every fault a start refuses, or nil.
func fatalFaults(faults []topicFault) error {
	var errs []error
	missing := 0
	for _, f := range faults {
		if f.Fatal {
			errs = append(errs, errors.New(f.String()))
			if strings.HasPrefix(f.Text, "does not exist") {
				missing++
			}
		}
	}
	if missing > 3 && missing == len(errs) { // a new cluster: one line says enough
		return fmt.Errorf("%d topics do not exist; run hookline topics create", missing)
	}
	return errors.Join(errs...)
}
