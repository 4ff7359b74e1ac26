package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hookline/hookline/dispatcher/attempt"
	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/ingest/event"
	"github.com/hookline/hookline/retrytiers/tier"
)

// recordRoom is what a record needs beside its body.
const recordRoom = event.HeaderRoom

// setting is one row of the table: the only place that knows a key, its variable, its
// defaults and how its value is read.
type setting struct {
	key    string
	env    string // also every HOOKLINE_ + the key in capitals would be guessable, but these are fixed
	dev    string // default in dev; "" = none
	run    string // default in run
	need   bool   // run refuses to start without it
	secret bool   // never printed
	tree   bool   // holds a whole section, its inner names are checked by set
	empty  bool   // an empty environment variable counts as a value
	help   string
	set    func(c *Config, v any) error
}

// settings returns the table in the order in which it is printed.
func settings() []setting {
	var out []setting
	for _, group := range [][]setting{
		generalSettings(), ingestSettings(), ingestLimitSettings(), adminSettings(), kafkaSettings(),
		topicSettings(), deliverySettings(), analyticsSettings(),
	} {
		out = append(out, group...)
	}
	return out
}

func generalSettings() []setting {
	return []setting{
		{key: "data_dir", env: "HOOKLINE_DATA_DIR", dev: "./data", run: "./data", help: "where embedded parts keep data",
			set: setText(func(c *Config) *string { return &c.DataDir })},
		{key: "secret_key", env: "HOOKLINE_SECRET_KEY", need: true, secret: true,
			help: "32 bytes in base64 that seal endpoint secrets; several with commas: the first seals",
			set:  setSecretKey},
		{key: "secrets.exec_interval", env: "HOOKLINE_SECRETS_EXEC_INTERVAL", dev: "1m", run: "1m",
			help: "how often the exec: commands behind API keys and source secrets are run again; 0 = only at SIGHUP",
			set: func(c *Config, v any) (err error) {
				if c.ExecInterval, err = asDuration(v); err == nil && c.ExecInterval != 0 && c.ExecInterval < time.Second {
					err = errors.New("must be 0 or at least 1s")
				}
				return err
			}},
		{key: "log.level", env: "HOOKLINE_LOG_LEVEL", dev: "warn", run: "info", help: "debug, info, warn, error",
			set: setChoice(func(c *Config) *string { return &c.Log.Level }, "debug", "info", "warn", "error")},
		{key: "log.format", env: "HOOKLINE_LOG_FORMAT", dev: "text", run: "json", help: "text or json",
			set: setChoice(func(c *Config) *string { return &c.Log.Format }, "text", "json")},
	}
}

func ingestSettings() []setting {
	return []setting{
		{key: "ingest.addr", env: "HOOKLINE_INGEST_ADDR", dev: "127.0.0.1:8080", run: ":8080", help: "ingest listener",
			set: setAddr(func(c *Config) *string { return &c.Ingest.Addr })},
		{key: "ingest.api_keys", env: "HOOKLINE_API_KEYS", dev: "dev:dev", need: true, secret: true,
			help: "tenant:key, tenant:sha256=HEX, or @FILE of them; rate=N burst=N may follow a key",
			set: func(c *Config, v any) (err error) {
				c.Ingest.keys = newLive("ingest.api_keys", func(get resolver) ([]apiKey, error) {
					keys, err := asAPIKeys(v, get)
					if err == nil && len(keys) == 0 {
						err = errors.New("holds no key")
					}
					return keys, err
				})
				c.Ingest.APIKeys, err = c.Ingest.keys.load()
				return err
			}},
		{key: "ingest.max_body", env: "HOOKLINE_MAX_BODY", dev: "256KiB", run: "256KiB", help: "largest body of one event",
			set: func(c *Config, v any) (err error) { c.Ingest.MaxBody, err = asSize(v, 1, 8<<20); return err }},
		{key: "sources", tree: true, help: "third-party webhooks by name; documented in ingest/source", set: setSources},
		{key: "ingest.max_backlog_age", env: "HOOKLINE_MAX_BACKLOG_AGE", dev: "0", run: "0",
			help: "dispatcher lag above which ingest answers 429; 0 = never",
			set:  setDuration(func(c *Config) *time.Duration { return &c.Ingest.MaxBacklogAge })},
	}
}

func adminSettings() []setting {
	return []setting{
		{key: "admin.addr", env: "HOOKLINE_ADMIN_ADDR", dev: "127.0.0.1:8081", run: "127.0.0.1:8081", help: "admin API, console, metrics, health",
			set: setAddr(func(c *Config) *string { return &c.Admin.Addr })},
		{key: "admin.token", env: "HOOKLINE_ADMIN_TOKEN", dev: "dev", need: true, secret: true, help: "bearer token of the admin API",
			set: setSecret(func(c *Config) *string { return &c.Admin.Token })},
	}
}

func kafkaSettings() []setting {
	return []setting{
		{key: "kafka.brokers", env: "HOOKLINE_KAFKA_BROKERS", need: true, empty: true, help: "seed brokers; empty in dev = embedded",
			set: func(c *Config, v any) (err error) { c.Kafka.Brokers, err = asSeeds(v); return err }},
		{key: "kafka.prefix", env: "HOOKLINE_KAFKA_PREFIX", dev: event.DefaultPrefix, run: event.DefaultPrefix, help: "prefix of topics and groups",
			set: setPrefix},
		{key: "kafka.tls.enabled", env: "HOOKLINE_KAFKA_TLS", dev: "false", run: "false", help: "speak TLS to the brokers (kafka.tls: true does too)",
			set: setBool(func(c *Config) *bool { return &c.Kafka.TLS.Enabled })},
		{key: "kafka.tls.ca", env: "HOOKLINE_KAFKA_TLS_CA", help: "PEM file of authorities instead of the system's",
			set: setText(func(c *Config) *string { return &c.Kafka.TLS.CA })},
		{key: "kafka.tls.cert", env: "HOOKLINE_KAFKA_TLS_CERT", help: "PEM file of the client certificate",
			set: setText(func(c *Config) *string { return &c.Kafka.TLS.Cert })},
		{key: "kafka.tls.key", env: "HOOKLINE_KAFKA_TLS_KEY", help: "PEM file of its key",
			set: setText(func(c *Config) *string { return &c.Kafka.TLS.Key })},
		{key: "kafka.tls.server_name", env: "HOOKLINE_KAFKA_TLS_SERVER_NAME", help: "name that the brokers' certificate must have",
			set: setText(func(c *Config) *string { return &c.Kafka.TLS.ServerName })},
		{key: "kafka.sasl.mechanism", env: "HOOKLINE_KAFKA_SASL_MECHANISM", help: "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
			set: setChoice(func(c *Config) *string { return &c.Kafka.SASL.Mechanism }, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "")},
		{key: "kafka.sasl.user", env: "HOOKLINE_KAFKA_SASL_USER", help: "user",
			set: setText(func(c *Config) *string { return &c.Kafka.SASL.User })},
		{key: "kafka.sasl.password", env: "HOOKLINE_KAFKA_SASL_PASSWORD", secret: true, help: "password",
			set: setSecret(func(c *Config) *string { return &c.Kafka.SASL.Password })},
	}
}

func topicSettings() []setting {
	int32At := func(at func(c *Config) *int32, high int64) func(*Config, any) error {
		return func(c *Config, v any) error {
			n, err := asInt(v, 1, high)
			*at(c) = int32(n)
			return err
		}
	}
	return []setting{
		{key: "topics.partitions", env: "HOOKLINE_TOPICS_PARTITIONS", dev: "12", run: "48",
			help: "of events, due, fences and dedupe; never changes in place",
			set:  int32At(func(c *Config) *int32 { return &c.Topics.Partitions }, 4096)},
		{key: "topics.attempts_partitions", env: "HOOKLINE_TOPICS_ATTEMPTS_PARTITIONS", dev: fmt.Sprint(attempt.DefaultPartitions), run: fmt.Sprint(attempt.DefaultPartitions),
			help: "of attempts",
			set:  int32At(func(c *Config) *int32 { return &c.Topics.AttemptsPartitions }, 4096)},
		{key: "topics.dead_partitions", env: "HOOKLINE_TOPICS_DEAD_PARTITIONS", dev: fmt.Sprint(tier.DeadPartitions), run: fmt.Sprint(tier.DeadPartitions),
			help: "of dead",
			set:  int32At(func(c *Config) *int32 { return &c.Topics.DeadPartitions }, 4096)},
		{key: "topics.replication_factor", env: "HOOKLINE_TOPICS_REPLICATION_FACTOR", dev: "-1", run: "3", help: "-1 = the cluster's default",
			set: func(c *Config, v any) error {
				n, err := asInt(v, -1, 15)
				if err == nil && n == 0 {
					err = errors.New("must be -1 or at least 1")
				}
				c.Topics.Replication = int16(n)
				return err
			}},
		{key: "topics.min_insync_replicas", env: "HOOKLINE_TOPICS_MIN_INSYNC_REPLICAS", dev: "0", run: "2", help: "0 = the cluster's default",
			set: func(c *Config, v any) error {
				n, err := asInt(v, 0, 15)
				c.Topics.MinInsync = int(n)
				return err
			}},
		{key: "topics.max_message_bytes", env: "HOOKLINE_TOPICS_MAX_MESSAGE_BYTES", dev: "1048588", run: "1048588", help: "of the topics that carry bodies",
			set: func(c *Config, v any) (err error) { c.Topics.MaxMessage, err = asSize(v, 16<<10, 64<<20); return err }},
		{key: "retrytiers.ladder", tree: true, help: "steps of the retry topics; needs new topics when it changes", set: setLadder},
		{key: "topics.retention", tree: true, help: "by topic suffix, such as {events: 72h, dead: 30d}", set: setRetention},
	}
}

func deliverySettings() []setting {
	return []setting{
		{key: "egress.allow", env: "HOOKLINE_EGRESS_ALLOW", dev: "127.0.0.0/8,::1/128", empty: true,
			help: "CIDRs that deliveries may reach although private; empty = none",
			set:  func(c *Config, v any) (err error) { c.Egress.Allow, err = asPrefixes(v); return err }},
		{key: "egress.http", env: "HOOKLINE_EGRESS_HTTP", dev: "true", run: "false", help: "true lets endpoints use http://",
			set: setBool(func(c *Config) *bool { return &c.Egress.HTTP })},
		{key: "dispatcher.in_flight", env: "HOOKLINE_DISPATCHER_IN_FLIGHT", dev: "8192", run: "8192", help: "deliveries at once in this process",
			set: setInt(func(c *Config) *int { return &c.Dispatcher.InFlight }, 1, 1<<20)},
		{key: "dispatcher.instance_id", env: "HOOKLINE_DISPATCHER_INSTANCE_ID", dev: "dev",
			help: "static group membership: unique and stable per process; default: host name and port of admin.addr",
			set:  setText(func(c *Config) *string { return &c.Dispatcher.InstanceID })},
		{key: "dispatcher.keep_membership", env: "HOOKLINE_DISPATCHER_KEEP_MEMBERSHIP", dev: "false", run: "false",
			help: "keep the static memberships over a clean stop",
			set:  setBool(func(c *Config) *bool { return &c.Dispatcher.KeepMembership })},
		{key: "dispatcher.worker", env: "HOOKLINE_WORKER", help: "name of this process in attempt records; default: host name",
			set: setText(func(c *Config) *string { return &c.Dispatcher.Worker })},
		{key: "dispatcher.trim_interval", env: "HOOKLINE_DISPATCHER_TRIM_INTERVAL", dev: "1m", run: "1m", help: "how often what is done is deleted from due",
			set: setDuration(func(c *Config) *time.Duration { return &c.Dispatcher.TrimInterval })},
		{key: "retrytiers.instance_id", env: "HOOKLINE_RETRYTIERS_INSTANCE_ID", dev: "dev",
			help: "static group membership: unique and stable per process; default: host name and port of admin.addr",
			set:  setText(func(c *Config) *string { return &c.Retrytiers.InstanceID })},
		{key: "retrytiers.trim_interval", env: "HOOKLINE_RETRYTIERS_TRIM_INTERVAL", dev: "1m", run: "1m", help: "how often what is done is deleted from the retry topics",
			set: setDuration(func(c *Config) *time.Duration { return &c.Retrytiers.TrimInterval })},
		{key: "retrytiers.wheel_records", env: "HOOKLINE_RETRYTIERS_WHEEL_RECORDS", dev: "200000", run: "200000", help: "most records waiting in memory",
			set: setInt(func(c *Config) *int { return &c.Retrytiers.WheelRecords }, 1, 1<<28)},
		{key: "retrytiers.wheel_bytes", env: "HOOKLINE_RETRYTIERS_WHEEL_BYTES", dev: "256MiB", run: "256MiB", help: "most memory of them",
			set: func(c *Config, v any) (err error) {
				c.Retrytiers.WheelBytes, err = asSize(v, 1<<20, 1<<40)
				return err
			}},
		{key: "defaults", tree: true, help: "of endpoints: the fields of an endpoint without id, url and secret", set: setDefaults},
	}
}

func setText(at func(*Config) *string) func(*Config, any) error {
	return func(c *Config, v any) (err error) { *at(c), err = asString(v); return err }
}

func setSecret(at func(*Config) *string) func(*Config, any) error {
	return func(c *Config, v any) (err error) {
		*at(c), err = asSecret(v)
		if err == nil && *at(c) == "" {
			err = errors.New("is empty")
		}
		return err
	}
}

func setBool(at func(*Config) *bool) func(*Config, any) error {
	return func(c *Config, v any) (err error) { *at(c), err = asBool(v); return err }
}

func setInt(at func(*Config) *int, low, high int64) func(*Config, any) error {
	return func(c *Config, v any) error {
		n, err := asInt(v, low, high)
		*at(c) = int(n)
		return err
	}
}

func setDuration(at func(*Config) *time.Duration) func(*Config, any) error {
	return func(c *Config, v any) (err error) { *at(c), err = asDuration(v); return err }
}

func setAddr(at func(*Config) *string) func(*Config, any) error {
	return func(c *Config, v any) (err error) { *at(c), err = asListenAddr(v); return err }
}

func setChoice(at func(*Config) *string, allowed ...string) func(*Config, any) error {
	return func(c *Config, v any) (err error) { *at(c), err = oneOf(v, allowed...); return err }
}

func setSecretKey(c *Config, v any) error {
	keys, err := asSecretKeys(v)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return errors.New("is empty")
	}
	for i, k := range keys {
		if raw, err := base64.StdEncoding.DecodeString(k); err != nil || len(raw) != 32 {
			return fmt.Errorf("key %d is not 32 bytes in base64 (make one: head -c 32 /dev/urandom | base64)", i+1)
		}
	}
	c.SecretKeys = keys
	return nil
}

// setPrefix takes a topic prefix. Group names are made of it too, so it ends in a full stop.
func setPrefix(c *Config, v any) error {
	s, err := asString(v)
	if err != nil {
		return err
	}
	ok := strings.HasSuffix(s, ".") && len(s) > 1 && len(s) <= 100
	for _, r := range s {
		ok = ok && (r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}
	if !ok {
		return errors.New("must be up to 100 of [A-Za-z0-9._-] with a full stop at its end")
	}
	c.Kafka.Prefix = s
	return nil
}

func setRetention(c *Config, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("must be a section of topic: duration")
	}
	known := map[string]bool{}
	for _, t := range topicSpecs(c) {
		if t.Configs["cleanup.policy"] == "delete" {
			known[t.Suffix] = true
		}
	}
	var errs []error
	for suffix, raw := range m {
		if !known[suffix] {
			errs = append(errs, fmt.Errorf("%s is not a topic with a retention", suffix))
			continue
		}
		d, err := asDuration(raw)
		if err == nil && d < time.Minute {
			err = errors.New("must be at least 1m")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w", suffix, err))
			continue
		}
		if c.Topics.Retention == nil {
			c.Topics.Retention = map[string]time.Duration{}
		}
		c.Topics.Retention[suffix] = d
	}
	return errors.Join(errs...)
}

func setLadder(c *Config, v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &c.Retrytiers.Ladder)
	}
	if err != nil {
		return fmt.Errorf("is not a ladder: %w", err)
	}
	return nil
}

// setDefaults checks the defaults of endpoints as an endpoint with a stand-in id, one field
// at a time so that every fault is told.
func setDefaults(c *Config, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("must be a section")
	}
	e := endpoint.Default()
	var errs []error
	for _, part := range fieldsOf(m) {
		if name := part.name; name == "id" || name == "url" || name == "secret" {
			errs = append(errs, fmt.Errorf("%s belongs to each endpoint, not to the defaults", name))
			continue
		}
		raw, err := json.Marshal(part.object)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s cannot be read", part.name))
			continue
		}
		next, err := endpoint.Merge(e, raw)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part.name, err))
			continue
		}
		e = next
	}
	e.ID = "x"
	if e.Tenant == "" {
		e.Tenant = "x"
	}
	c.Defaults = m
	return errors.Join(append(errs, e.Validate())...)
}

// field is one leaf of an endpoint's form, as an object that holds only it.
type field struct {
	name   string
	object map[string]any
}

// fieldsOf takes an endpoint's form apart, sorted by name.
func fieldsOf(m map[string]any) []field {
	var out []field
	for _, name := range slices.Sorted(maps.Keys(m)) {
		retry, ok := m[name].(map[string]any)
		if name != "retry" || !ok {
			out = append(out, field{name, map[string]any{name: m[name]}})
			continue
		}
		for _, inner := range slices.Sorted(maps.Keys(retry)) {
			out = append(out, field{"retry." + inner, map[string]any{"retry": map[string]any{inner: retry[inner]}}})
		}
	}
	return out
}

// hostName is the default name of this process.
func hostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "hookline"
	}
	return name
}
