package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/hookline/hookline/analytics/clickhouse"
	"github.com/hookline/hookline/analytics/schema"
)

type analyticsCmd struct {
	Migrate analyticsMigrateCmd `cmd:"" help:"Make or complete the tables in ClickHouse; what is there stays."`
}

type analyticsMigrateCmd struct {
	DryRun bool `help:"Print the statements and change nothing."`
	JSON   bool `help:"Print JSON."`
	settingFlags
}

// migrateTime bounds all statements together.
const migrateTime = 5 * time.Minute

// Run needs no server of ours: it speaks to the ClickHouse of the settings.
func (c *analyticsMigrateCmd) Run(a *app) error {
	conn, err := a.openClickHouse(c.values())
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is under way
	ctx, cancel := context.WithTimeout(a.ctx, migrateTime)
	defer cancel()
	do := schema.Migrate
	if c.DryRun {
		do = schema.Plan
	}
	steps, err := do(ctx, conn, clickhouse.Database)
	if err != nil {
		return fmt.Errorf("migrate ClickHouse: %w", err)
	}
	if !c.DryRun {
		if err := schema.Check(ctx, conn, clickhouse.Database); err != nil {
			return err
		}
	}
	return c.print(a, steps)
}

func (c *analyticsMigrateCmd) print(a *app, steps []schema.Step) error {
	if c.JSON {
		type step struct {
			Version    int      `json:"version"`
			Name       string   `json:"name"`
			Statements []string `json:"statements"`
		}
		list := make([]step, len(steps))
		for i, s := range steps {
			list[i] = step(s)
		}
		return printJSON(a, map[string]any{"dry_run": c.DryRun, "steps": list})
	}
	for _, s := range steps {
		if !c.DryRun {
			fmt.Fprintf(a.stdout, "applied %04d_%s: %d statements\n", s.Version, s.Name, len(s.Statements))
			continue
		}
		fmt.Fprintf(a.stdout, "-- %04d_%s\n", s.Version, s.Name)
		for _, sql := range s.Statements {
			fmt.Fprintf(a.stdout, "%s;\n", strings.TrimSpace(sql))
		}
	}
	if len(steps) == 0 {
		fmt.Fprintln(a.stdout, "the tables are up to date")
	}
	return nil
}

// openClickHouse is for commands that speak to ClickHouse themselves.
func (a *app) openClickHouse(flags flagValues) (driver.Conn, error) {
	cfg, err := a.load(flags, dev, "clickhouse.dsn")
	if err != nil {
		return nil, err
	}
	if analyticsOff(cfg.ClickHouseDSN) {
		return nil, usagef("no ClickHouse is named: set HOOKLINE_CLICKHOUSE_DSN or clickhouse.dsn (the embedded one: what dev's ready line says)")
	}
	return clickhouse.Open(cfg.ClickHouseDSN, 2)
}
