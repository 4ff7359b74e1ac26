package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hookline/hookline/analytics"
	"github.com/hookline/hookline/analytics/clickhouse"
	"github.com/hookline/hookline/deploy/local/engine"
)

// dsnOff as clickhouse.dsn means a process without analytics.
const dsnOff = "off"

func analyticsSettings() []setting {
	return []setting{
		{key: "clickhouse.dsn", env: "HOOKLINE_CLICKHOUSE_DSN", run: dsnOff, secret: true,
			help: "clickhouse:// or http(s)://; empty in dev = embedded; off = no analytics",
			set:  func(c *Config, v any) (err error) { c.ClickHouseDSN, err = asDSN(v); return err }},
		{key: "libchdb", env: "HOOKLINE_LIBCHDB", help: "path of libchdb.so, the embedded ClickHouse; dev finds the one in .tools/",
			set: setText(func(c *Config) *string { return &c.LibCHDB })},
	}
}

// asDSN reads where ClickHouse is. No problem with it repeats it: it may hold a password.
func asDSN(v any) (string, error) {
	s, err := asSecret(v)
	if err != nil || s == "" || s == dsnOff {
		return s, err
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", errors.New("is not a URL")
	case u.Scheme != "clickhouse" && u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("must begin with clickhouse://, http:// or https://, or be off")
	case u.Host == "":
		return "", errors.New("names no host")
	}
	// The driver takes https for a mistake unless the DSN says a second time that it means TLS.
	if args := u.Query(); u.Scheme == "https" && !args.Has("secure") {
		args.Set("secure", "true")
		u.RawQuery = args.Encode()
		s = u.String()
	}
	if _, err := clickhouse.Options(s, 1); err != nil {
		return "", errors.New("is not a ClickHouse DSN: an option behind the ? is wrong")
	}
	return s, nil
}

// engineCommand makes this program the embedded ClickHouse: dev starts itself with it. It is no
// command of the command line, which would read the flags and take the signals.
const engineCommand = "engine"

// engineStartTimeout bounds the load of the tables.
const engineStartTimeout = 2 * time.Minute

// startEngine starts the embedded ClickHouse and makes it the one of the settings.
func (n *node) startEngine(ctx context.Context) (part, error) {
	lib, err := findLibCHDB(n.cfg.LibCHDB)
	if err != nil {
		return part{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return part{}, fmt.Errorf("find own program: %w", err)
	}
	dir, err := filepath.Abs(filepath.Join(n.cfg.DataDir, "clickhouse"))
	if err != nil {
		return part{}, fmt.Errorf("find the data directory of the embedded ClickHouse: %w", err)
	}
	startCtx, cancel := context.WithTimeout(ctx, engineStartTimeout)
	defer cancel()
	e, err := engine.Start(startCtx, engine.Config{
		Command: []string{self, engineCommand}, Env: []string{"TZ=UTC"}, DataDir: dir, Lib: lib, Nice: engine.LowPriority,
		Log: n.log.With("role", "engine"), Metrics: n.reg,
	})
	if err != nil {
		return part{}, fmt.Errorf("start the embedded ClickHouse (HOOKLINE_CLICKHOUSE_DSN=off runs without): %w", err)
	}
	n.cfg.ClickHouseDSN = e.DSN()
	n.onClose(func() {
		if err := e.Close(); err != nil {
			n.log.Error("the embedded ClickHouse did not end cleanly; its data is recovered at the next start", "error", err)
		}
	})
	return part{name: "engine", run: e.Run}, nil
}

// findLibCHDB returns the library that the settings name, or the one that make tools-chdb brought.
func findLibCHDB(path string) (string, error) {
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("HOOKLINE_LIBCHDB: %w", err)
		}
		return filepath.Abs(path)
	}
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if self, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(self))
	}
	for _, dir := range starts {
		if found, ok := engine.FindLibrary(dir); ok {
			return found, nil
		}
	}
	return "", fmt.Errorf("libchdb.so, the embedded ClickHouse, is in no .tools/ here (%w): run make tools-chdb, name one with HOOKLINE_LIBCHDB, or set HOOKLINE_CLICKHOUSE_DSN=off", fs.ErrNotExist)
}

// clickhouseField is what the ready line says: where questions can be asked, without a password.
func (n *node) clickhouseField() string {
	if analyticsOff(n.cfg.ClickHouseDSN) {
		return dsnOff
	}
	u, err := url.Parse(n.cfg.ClickHouseDSN)
	if err != nil {
		return dsnOff
	}
	return u.Scheme + "://" + u.Host
}

// analytics makes the sink. What it says of its readiness is shown and nothing more: a process
// whose ClickHouse is away takes events and delivers them.
func (n *node) analytics() (part, error) {
	cfg := analytics.DefaultConfig()
	cfg.InstanceID = n.instance()
	conn, err := clickhouse.Open(n.cfg.ClickHouseDSN, cfg.Inserts+1)
	if err != nil {
		return part{}, err
	}
	n.onClose(func() { _ = conn.Close() }) // nothing is under way then
	s, err := analytics.New(cfg, analytics.Deps{
		Kafka: n.base.options(roleAnalytics), Prefix: n.cfg.Kafka.Prefix, Log: n.log, Metrics: n.reg, ClickHouse: conn,
		OnlyTenant: n.onlyTenant,
	})
	if err != nil {
		return part{}, err
	}
	n.sink = s
	n.health.show(roleAnalytics, s.Ready)
	return part{name: roleAnalytics, run: s.Run}, nil
}

// withoutAnalytics drops the role when there is no ClickHouse. Who names the role wants it.
func withoutAnalytics(roles []string, named string, dsn string) ([]string, error) {
	if !analyticsOff(dsn) {
		return roles, nil
	}
	if strings.Contains(named, roleAnalytics) {
		return nil, usagef("--roles: analytics needs a ClickHouse; set HOOKLINE_CLICKHOUSE_DSN")
	}
	out := make([]string, 0, len(roles))
	for _, r := range roles {
		if r != roleAnalytics {
			out = append(out, r)
		}
	}
	return out, nil
}
