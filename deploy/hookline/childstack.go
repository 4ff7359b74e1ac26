package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/bench"
)

// childStack is a hookline dev in a process of its own, with data that is thrown away: what
// it costs can be told from what measuring it costs.
type childStack struct {
	bench.Remote
	*child
	dir    string
	shared bool // on a cluster that keeps what we leave
	// clickhouse is off, as the scenarios measure the way of an event, or "" for the embedded one
	// out of library.
	clickhouse, library string
	// Of scenario ingest alone.
	broker, bare *child // nil = none
	bench        bench.Bare
}

// startChildStack starts this program as a stack. brokers "" = embedded.
func startChildStack(ctx context.Context, brokers string, withClickHouse bool) (*childStack, error) {
	s, err := newChildStack(brokers)
	if err != nil {
		return nil, err
	}
	if withClickHouse {
		// The stack runs in a directory of its own, from which no .tools/ can be found.
		if s.library, err = findLibCHDB(os.Getenv("HOOKLINE_LIBCHDB")); err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.clickhouse = ""
	}
	if err := s.startDev(ctx, brokers); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func newChildStack(brokers string) (*childStack, error) {
	dir, err := os.MkdirTemp("", "hookline-bench-")
	if err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	s := &childStack{dir: dir, shared: brokers != "", clickhouse: dsnOff}
	secret := rand.Text()
	s.Token, s.Key, s.TopicPrefix = secret, secret, "hookline-bench-"+shortID()+"."
	return s, nil
}

// startDev starts hookline itself and takes addresses from its ready line.
func (s *childStack) startDev(ctx context.Context, brokers string, args ...string) (err error) {
	var fields map[string]string
	s.child, fields, err = startChild(ctx, s.dir, append([]string{"dev", "--ingest-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"}, args...),
		"HOOKLINE_DATA_DIR="+filepath.Join(s.dir, "data"), "HOOKLINE_KAFKA_PREFIX="+s.TopicPrefix, "HOOKLINE_KAFKA_BROKERS="+brokers,
		"HOOKLINE_CLICKHOUSE_DSN="+s.clickhouse, "HOOKLINE_LIBCHDB="+s.library,
		"HOOKLINE_ADMIN_TOKEN="+s.Token, "HOOKLINE_API_KEYS=bench:"+s.Key)
	if err != nil {
		return err
	}
	s.Ingest, s.Admin = fields["ingest"], fields["admin"]
	if s.Ingest == "" || s.Admin == "" || fields["kafka"] == "" {
		return fmt.Errorf("the stack said %v instead of its addresses", fields)
	}
	s.Brokers = []kgo.Opt{kgo.SeedBrokers(strings.Split(fields["kafka"], ",")...)}
	s.Processes = []int{s.pid()}
	return nil
}

// stop ends the processes and removes what they kept.
func (s *childStack) stop() error {
	var errs []error
	for _, c := range []*child{s.bare, s.child} {
		errs = append(errs, c.stop())
	}
	if s.shared && s.Brokers != nil {
		errs = append(errs, s.removeTopics())
	}
	return errors.Join(append(errs, s.broker.stop(), os.RemoveAll(s.dir))...)
}

// removeTopics takes topics and groups of the run off a shared cluster.
func (s *childStack) removeTopics() error {
	cl, err := kgo.NewClient(s.Brokers...)
	if err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	var names []string
	for name := range topics {
		if strings.HasPrefix(name, s.TopicPrefix) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		if _, err := adm.DeleteTopics(ctx, names...); err != nil {
			return fmt.Errorf("remove topics: %w", err)
		}
	}
	groups, err := adm.ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("remove groups: %w", err)
	}
	var mine []string
	for _, g := range groups.Groups() {
		if strings.HasPrefix(g, s.TopicPrefix) {
			mine = append(mine, g)
		}
	}
	if len(mine) > 0 {
		if _, err := adm.DeleteGroups(ctx, mine...); err != nil {
			return fmt.Errorf("remove groups: %w", err)
		}
	}
	return nil
}

func shortID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand documents it
	return hex.EncodeToString(b[:])
}
