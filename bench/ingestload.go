package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hookline/hookline/bench/loadgen"
	"github.com/hookline/hookline/ingest"
)

// publishLoad posts events one by one, or in batches, to an ingest.
func (s *session) publishLoad(base, key string, batch int) func(context.Context, string, time.Duration) (*ingestLoad, error) {
	return func(ctx context.Context, name string, d time.Duration) (*ingestLoad, error) {
		cfg := s.load(name, d)
		cfg.URL, cfg.APIKey, cfg.EventType, cfg.Batch = base+ingest.PathEvents, key, s.id, batch
		if batch > 0 {
			cfg.URL += "/batch"
		}
		gen, err := loadgen.New(cfg)
		if err != nil {
			return nil, err
		}
		r := gen.Run(ctx)
		return &ingestLoad{
			started: r.Started, ended: r.Ended, accepted: r.Accepted, latency: r.Latency,
			info: LoadInfo{Sent: r.Sent, Refused: r.Refused(), Unknown: r.Unknown(), ByStatus: r.ByStatus, Errors: r.Errors},
			each: func(fn func(id string, hash uint64)) {
				r.Each(func(a loadgen.Accepted) bool { fn(a.ID, a.BodyHash); return true })
			},
		}, ctx.Err()
	}
}

// groupLoad has a bare ingest produce by itself.
func (s *session) groupLoad(base string) func(context.Context, string, time.Duration) (*ingestLoad, error) {
	return func(ctx context.Context, name string, d time.Duration) (_ *ingestLoad, err error) {
		o := s.opts
		in, err := json.Marshal(groupLoad{
			Group: o.Batch, Workers: o.Connections, Duration: d, Rate: o.Rate, Size: o.Size, Prefix: s.id + "-" + name + "-",
		})
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+bareGroups, bytes.NewReader(in))
		if err != nil {
			return nil, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, res.Body.Close()) }()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		var out groupResult
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("status %d: %s", res.StatusCode, firstLine(raw))
		}
		if err := json.Unmarshal(raw, &out); err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		return out.load(o.Batch), nil
	}
}

func (g *groupResult) load(group int) *ingestLoad {
	return &ingestLoad{
		started: g.Started, ended: g.Ended, accepted: len(g.Groups) * group, latency: hdrhistogram.Import(g.Latency),
		info: LoadInfo{Sent: (len(g.Groups) + g.Failed) * group, Unknown: g.Failed * group},
		each: func(fn func(id string, hash uint64)) {
			for _, first := range g.Groups {
				for n := range uint64(group) {
					fn(bareID(g.Run, first+n), 0)
				}
			}
		},
	}
}
