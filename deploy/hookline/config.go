package main

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/hookline/hookline/ingest"
	"github.com/hookline/hookline/retrytiers/tier"
)

// profile decides the defaults and what must be given.
type profile string

const (
	// dev is a laptop: everything has a default, listeners stay on loopback.
	dev profile = "dev"
	// production has no default for brokers, keys, tokens and secrets.
	production profile = "run"
)

// Config is what all settings say, read and checked. settings.go is the table behind it.
type Config struct {
	DataDir    string
	SecretKeys []string // base64; the first one seals endpoint secrets
	// ExecInterval is the time between two runs of a command that gives a secret.
	ExecInterval time.Duration

	Ingest     ingestConfig
	Admin      adminConfig
	Kafka      kafkaConfig
	Topics     topicsConfig
	Egress     egressConfig
	Dispatcher dispatcherConfig
	Retrytiers retrytiersConfig
	Log        logConfig
	Sources    []*sourceConfig
	// Warnings are about what is allowed and likely not meant.
	Warnings []problem

	ClickHouseDSN string
	LibCHDB       string
	Defaults      map[string]any // of endpoints, in the form of their JSON
}

type ingestConfig struct {
	Addr    string
	APIKeys []apiKey
	keys    *live[[]apiKey] // follows APIKeys
	TLS     ingestTLSConfig

	Limit                    ingest.Limit // of keys that name none
	MaxConnections           int
	MaxConnectionsPerAddress int
	ReadTimeout              time.Duration
	MaxBody                  int64
	MaxBacklogAge            time.Duration
}

// apiKey is one publishing key: as itself or as the hex of its SHA-256.
type apiKey struct {
	Tenant string
	Key    string // "" when only the hash is known
	SHA256 string // lower-case hex, "" when Key is set
	// Options are those of ingest.Config.APIKeys, such as "rate=100 burst=500".
	Options string
}

type adminConfig struct {
	Addr  string
	Token string
}

type kafkaConfig struct {
	Brokers []string
	Prefix  string
	TLS     tlsConfig
	SASL    saslConfig
}

type tlsConfig struct {
	Enabled    bool
	CA         string
	Cert       string
	Key        string
	ServerName string
}

type saslConfig struct {
	Mechanism string // "", PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	User      string
	Password  string
}

type topicsConfig struct {
	Partitions         int32 // events, due, fences, dedupe
	AttemptsPartitions int32
	DeadPartitions     int32
	Replication        int16 // -1 = the cluster's default
	MinInsync          int   // 0 = the cluster's default
	MaxMessage         int64
	Retention          map[string]time.Duration // by suffix
}

type egressConfig struct {
	Allow []netip.Prefix
	HTTP  bool
}

type dispatcherConfig struct {
	InFlight       int
	InstanceID     string
	KeepMembership bool
	Worker         string
	TrimInterval   time.Duration
}

type retrytiersConfig struct {
	InstanceID   string
	TrimInterval time.Duration
	WheelRecords int
	WheelBytes   int64
	Ladder       tier.Ladder
}

type logConfig struct {
	Level  string
	Format string
}

// tenantsOf lists the tenants of keys in the order of their first one.
func tenantsOf(keys []apiKey) []string {
	var out []string
	seen := map[string]bool{}
	for _, k := range keys {
		if !seen[k.Tenant] {
			seen[k.Tenant] = true
			out = append(out, k.Tenant)
		}
	}
	return out
}

// ingest are the settings of the room.
func (c *Config) ingest() ingest.Config {
	cfg := ingest.DefaultConfig()
	in := c.Ingest
	cfg.Addr, cfg.APIKeys, cfg.Limit = in.Addr, keyHashes(in.APIKeys), in.Limit
	cfg.Sources = c.ingestSources()
	cfg.MaxBody, cfg.MaxBacklogAge = int(in.MaxBody), in.MaxBacklogAge
	cfg.MaxConnections, cfg.MaxConnectionsPerAddress, cfg.ReadTimeout = in.MaxConnections, in.MaxConnectionsPerAddress, in.ReadTimeout
	return cfg
}

// check reports what no single setting can see.
func (c *Config) check(p profile) []problem {
	var out []problem
	add := func(key, text string) { out = append(out, problem{Key: key, Text: text}) }
	if p == dev {
		for key, addr := range map[string]string{"ingest.addr": c.Ingest.Addr, "admin.addr": c.Admin.Addr} {
			if addr != "" && !loopback(addr) {
				add(key, "dev listens on loopback only; use 127.0.0.1:PORT here, or hookline run")
			}
		}
	}
	if c.Kafka.SASL.Mechanism == "" && (c.Kafka.SASL.User != "" || c.Kafka.SASL.Password != "") {
		add("kafka.sasl.mechanism", "is missing although a user or password is set; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	}
	if c.Kafka.SASL.Mechanism != "" && (c.Kafka.SASL.User == "" || c.Kafka.SASL.Password == "") {
		add("kafka.sasl.user", "user and password must be set with a mechanism")
	}
	if (c.Kafka.TLS.Cert == "") != (c.Kafka.TLS.Key == "") {
		add("kafka.tls.cert", "cert and key must be set together")
	}
	if t := c.Ingest.TLS; (t.Cert == "") != (t.Key == "") || t.ClientCA != "" && t.Cert == "" {
		add("ingest.tls.cert", "cert and key must be set together, and both with client_ca")
	} else if t.enabled() {
		if _, err := liveIngestTLS(t).load(); err != nil {
			add("ingest.tls", err.Error())
		}
	}
	if err := c.ingest().Validate(); err != nil && len(c.Ingest.APIKeys) > 0 { // without keys that is told already
		for line := range strings.SplitSeq(err.Error(), "\n") {
			key, text, _ := strings.Cut(line, ": ")
			add("ingest."+key, text)
		}
	}
	if need := c.Ingest.MaxBody + recordRoom; need > c.Topics.MaxMessage {
		add("ingest.max_body", "body limit plus 16 KiB for headers is above topics.max_message_bytes; lower one or raise the other")
	}
	if c.Dispatcher.KeepMembership && c.Dispatcher.InstanceID == "" {
		add("dispatcher.keep_membership", "needs dispatcher.instance_id: a dynamic member cannot come back")
	}
	if c.Topics.Replication > 0 && c.Topics.MinInsync > int(c.Topics.Replication) {
		add("topics.min_insync_replicas", "is above topics.replication_factor: nothing could be written")
	}
	return out
}

// loopback says whether a listener on addr can only be reached from this machine. A name
// other than localhost is refused without a look-up: what it resolves to can change.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
