package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestClickHouseDSN(t *testing.T) {
	t.Parallel()
	for dsn, problem := range map[string]string{
		"": "", "off": "", "clickhouse://u:hunter2@a:9000,b:9000/hookline?dial_timeout=1s": "", "http://127.0.0.1:8123": "", "https://u:hunter2@ch.example:8443?secure=true": "",
		"tcp://hunter2:9000": "must begin with", "hunter2": "must begin with", "clickhouse://": "names no host",
		"http://:hunter2@x:1:1/": "not a", "clickhouse://h?dial_timeout=hunter2": "not a ClickHouse DSN",
	} {
		c, problems := decodeFile(t, "", []string{"HOOKLINE_CLICKHOUSE_DSN=" + dsn}, nil, dev)
		if problem == "" {
			if len(problems) > 0 || c.ClickHouseDSN != dsn {
				t.Errorf("%q: %q %v", dsn, c.ClickHouseDSN, problems)
			}
			continue
		}
		if len(problems) != 1 || !strings.Contains(problems[0].String(), problem) || strings.Contains(problems[0].String(), "hunter2") {
			t.Errorf("%q: %v, want one that says %q and not the value", dsn, problems, problem)
		}
	}
	if c, problems := decodeFile(t, "", []string{"HOOKLINE_CLICKHOUSE_DSN=https://h:1"}, nil, dev); len(problems) > 0 || c.ClickHouseDSN != "https://h:1?secure=true" {
		t.Errorf("https: %q %v", c.ClickHouseDSN, problems)
	}
	if c, _ := decodeFile(t, "", nil, nil, production); c.ClickHouseDSN != dsnOff {
		t.Errorf("run without a DSN: %q", c.ClickHouseDSN)
	}
}

func TestRoleAnalyticsNeedsClickHouse(t *testing.T) {
	t.Parallel()
	if got, err := withoutAnalytics(allRoles(), "", dsnOff); err != nil || slices.Contains(got, roleAnalytics) || len(got) != len(allRoles())-1 {
		t.Errorf("all roles, no ClickHouse: %v %v", got, err)
	}
	if got, err := withoutAnalytics(allRoles(), "", "http://x"); err != nil || got[0] != roleAnalytics {
		t.Errorf("all roles: %v %v", got, err)
	}
	if _, err := withoutAnalytics([]string{roleAnalytics}, roleAnalytics, dsnOff); err == nil {
		t.Error("the role is dropped although it was named")
	}
	if got, err := parseRoles("analytics,ingest"); err != nil || !slices.Equal(got, []string{roleAnalytics, roleIngest}) {
		t.Errorf("%v %v", got, err)
	}
}

func TestMissingLibraryIsToldPlainly(t *testing.T) {
	t.Parallel()
	_, stderr, code := command(t, []string{
		"HOOKLINE_LIBCHDB=" + t.TempDir() + "/none.so", "HOOKLINE_DATA_DIR=" + t.TempDir(), "HOOKLINE_INGEST_ADDR=127.0.0.1:0", "HOOKLINE_ADMIN_ADDR=127.0.0.1:0",
	}, "dev")
	if code != exitFailed || !strings.Contains(stderr, "HOOKLINE_LIBCHDB") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%d %q", code, stderr)
	}
}

// A part that is only shown says what is wrong with it and leaves the process ready.
func TestShownHealth(t *testing.T) {
	t.Parallel()
	h := &health{}
	h.add("ingest", func() error { return nil })
	h.show("analytics", func() error { return errors.New("ClickHouse is away") })
	if got, ok := h.report(); !ok || got["analytics"] != "ClickHouse is away" {
		t.Errorf("%v %v", got, ok)
	}
	h.add("dispatcher", func() error { return errors.New("not yet") })
	h.show("more", func() error { return errors.New("away too") })
	if _, ok := h.report(); ok {
		t.Error("ready although the dispatcher is not")
	}
}
