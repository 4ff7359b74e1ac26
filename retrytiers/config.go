package retrytiers

import (
	"errors"
	"fmt"
	"time"

	"github.com/hookline/hookline/retrytiers/tier"
)

// Config is what an operator may set. The zero value is not usable, see DefaultConfig.
type Config struct {
	// InstanceID makes the membership static: a restart within the session timeout gets its
	// slots back without a rebalance. Empty = dynamic.
	InstanceID string
	// KeepMembership makes a clean stop keep the membership, for rolling restarts of static
	// members.
	KeepMembership bool

	// Ladder is the deployment's ladder, as kept in control.
	Ladder tier.Ladder

	// WheelRecords and WheelBytes bound what is held in memory between maturity and
	// acknowledgement, over all slots. Defaults 200,000 and 256 MiB.
	WheelRecords int
	WheelBytes   int64

	// CommitInterval is the time whose released records a crash repeats. Default 100 ms.
	CommitInterval time.Duration
	// RecommitInterval is how often an owned slot is committed although nothing changed.
	// Default 30 s.
	RecommitInterval time.Duration
	// TrimInterval is how often the log behind the commits is deleted. Default 60 s.
	TrimInterval time.Duration
	// FlushTimeout bounds how long a revoke waits for records that are with the producer.
	// Default 2 s.
	FlushTimeout time.Duration
}

// DefaultConfig returns the settings of DESIGN sections 8 and 12.
func DefaultConfig() Config {
	return Config{
		Ladder:           tier.DefaultLadder(),
		WheelRecords:     200_000,
		WheelBytes:       256 << 20,
		CommitInterval:   100 * time.Millisecond,
		RecommitInterval: 30 * time.Second,
		TrimInterval:     time.Minute,
		FlushTimeout:     2 * time.Second,
	}
}

// Validate reports every setting that is out of range.
func (c Config) Validate() error {
	var errs []error
	if _, err := tier.NewLadder(c.Ladder.Steps()); err != nil {
		errs = append(errs, err)
	}
	if c.WheelRecords < 1 {
		errs = append(errs, fmt.Errorf("wheel records is %d, want at least 1", c.WheelRecords))
	}
	if c.WheelBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("wheel bytes is %d, want at least 1 MiB", c.WheelBytes))
	}
	if c.KeepMembership && c.InstanceID == "" {
		errs = append(errs, errors.New("keep membership needs an instance id: a dynamic member cannot come back"))
	}
	positive := func(name string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s is %s, want more than 0", name, d))
		}
	}
	positive("commit interval", c.CommitInterval)
	positive("recommit interval", c.RecommitInterval)
	positive("trim interval", c.TrimInterval)
	positive("flush timeout", c.FlushTimeout)
	return errors.Join(errs...)
}
