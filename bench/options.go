package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Stack is the hookline under test.
type Stack interface {
	IngestURL() string  // http://HOST:PORT
	AdminURL() string   // http://HOST:PORT
	APIKey() string     // of Options.Tenant
	AdminToken() string //
	// Kafka returns base client options of the stack's broker, for the baseline and for
	// nothing else; nil = not reachable from here.
	Kafka() []kgo.Opt
	Prefix() string // of its topics, with the final dot
	// PIDs are the processes of the stack other than this one; their children are found.
	PIDs() []int
}

// Remote is a Stack that runs already.
type Remote struct {
	Ingest, Admin, Key, Token string
	Brokers                   []kgo.Opt
	TopicPrefix               string
	Processes                 []int
}

// IngestURL is of Stack.
func (r Remote) IngestURL() string { return strings.TrimRight(r.Ingest, "/") }

// AdminURL is of Stack.
func (r Remote) AdminURL() string { return strings.TrimRight(r.Admin, "/") }

// APIKey is of Stack.
func (r Remote) APIKey() string { return r.Key }

// AdminToken is of Stack.
func (r Remote) AdminToken() string { return r.Token }

// Kafka is of Stack.
func (r Remote) Kafka() []kgo.Opt { return r.Brokers }

// Prefix is of Stack.
func (r Remote) Prefix() string { return r.TopicPrefix }

// PIDs is of Stack.
func (r Remote) PIDs() []int { return r.Processes }

// Options of a run.
type Options struct {
	Scenario    string
	Stack       Stack
	Tenant      string
	Duration    time.Duration
	Warmup      time.Duration // load before the measured one; 0 = none
	Drain       time.Duration // how long nothing may arrive before the wait for the rest ends
	Rate        float64       // events per second, 0 = closed loop
	Connections int
	Size        int // bytes of a body
	Endpoints   int
	Messages    int // distinct message ids, 0 = each event its own
	Batch       int // scenario ingest: events of a post; 0 = single posts
	NoBaseline  bool
	Broker      string    // what Result says about the broker, for example "embedded"
	Version     string    // of hookline
	Progress    io.Writer // a line per second; nil = quiet
	Bare        Bare      // what scenario ingest compares with
	BrokerPIDs  []int     // of a broker that was started for the run
}

// Bare is a ServeBare that runs.
type Bare struct {
	URL   string // http://HOST:PORT
	Topic string
	PIDs  []int
}

// DefaultOptions is a closed loop of ten seconds against one endpoint.
func DefaultOptions() Options {
	return Options{
		Scenario: "e2e", Tenant: "dev", Duration: 10 * time.Second, Warmup: 2 * time.Second,
		Drain: 30 * time.Second, Connections: 64, Size: 512, Endpoints: 1,
	}
}

// Validate reports every mistake at once.
func (o Options) Validate() error {
	var errs []error
	if !slices.Contains(Scenarios(), o.Scenario) {
		errs = append(errs, fmt.Errorf("scenario %q: want one of %s", o.Scenario, strings.Join(Scenarios(), ", ")))
	}
	if o.Stack == nil {
		errs = append(errs, errors.New("no hookline to measure"))
	}
	if o.Tenant == "" {
		errs = append(errs, errors.New("tenant is required"))
	}
	if o.Duration <= 0 || o.Drain <= 0 || o.Warmup < 0 {
		errs = append(errs, errors.New("duration and drain must be positive, warm-up not negative"))
	}
	if o.Rate < 0 || o.Connections < 1 || o.Size < 0 || o.Messages < 0 {
		errs = append(errs, errors.New("connections must be positive; rate, size and messages not negative"))
	}
	if o.Batch < 0 || o.Batch > maxBatch || o.Batch > 0 && o.Scenario != "ingest" {
		errs = append(errs, fmt.Errorf("batch: want 1 to %d, with scenario ingest", maxBatch))
	}
	if o.Endpoints < 1 || o.Endpoints > maxEndpoints {
		errs = append(errs, fmt.Errorf("endpoints: want 1 to %d", maxEndpoints))
	}
	return errors.Join(errs...)
}

const (
	maxEndpoints = 1000
	maxBatch     = 1000 // of the contract
)
