package analytics

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/hookline/hookline/analytics/row"
)

// Config is what an operator may set. The zero value is not usable, see DefaultConfig.
type Config struct {
	// InstanceID makes the membership static: a restart within the session timeout gets its
	// partitions back without a rebalance. Empty = dynamic.
	InstanceID string
	// KeepMembership makes a clean stop keep the membership, for rolling restarts of static
	// members.
	KeepMembership bool

	// Database holds the tables. Default "hookline"; tests use names of their own.
	Database string
	// Migrate applies missing migrations at the start. Without it the sink waits, and says so,
	// until "hookline analytics migrate" was run. Default true.
	Migrate bool
	// AllowDuplicates lets the sink insert although the probe says that the server counts a
	// repeated insert twice. Default false: it waits, and says so.
	AllowDuplicates bool

	// BatchRows and BatchBytes close a batch; bytes are those of the block, uncompressed.
	// Defaults 50,000 and 8 MiB.
	BatchRows  int
	BatchBytes int64
	// LingerMin and LingerMax bound how long a batch that is not full collects. The first one
	// after a quiet time takes the shorter, a trickle that goes on the longer. Defaults 1 s, 5 s.
	LingerMin, LingerMax time.Duration
	// MemoryBytes bounds the rows in memory over all partitions; at it nothing is fetched.
	// Batches that an earlier owner has announced may go beyond it. Default 128 MiB.
	MemoryBytes int64

	// Inserts is how many run at once. Default 4.
	Inserts int
	// InsertRate bounds inserts a second of this process. Default 16.
	InsertRate float64
	// InsertTimeout ends an insert that hangs; its outcome is then unknown and the same insert
	// is repeated. Default 60 s.
	InsertTimeout time.Duration
	// RetryMin and RetryMax are the range of the pause between two tries. Defaults 0.2 s, 30 s.
	RetryMin, RetryMax time.Duration
	// RevokeTimeout bounds how long the handing over of partitions waits for inserts that run.
	// Default 5 s.
	RevokeTimeout time.Duration
	// WindowAge is how long a server is trusted to remember a token. An announced batch that
	// is older is looked for in the table before it is inserted. Default 10 minutes: what the
	// window of 10,000 inserts lasts at 16 inserts a second.
	WindowAge time.Duration
}

// DefaultConfig returns the settings of DESIGN section 10.
func DefaultConfig() Config {
	return Config{
		Database:      "hookline",
		Migrate:       true,
		BatchRows:     50_000,
		BatchBytes:    8 << 20,
		LingerMin:     time.Second,
		LingerMax:     5 * time.Second,
		MemoryBytes:   128 << 20,
		Inserts:       4,
		InsertRate:    16,
		InsertTimeout: 60 * time.Second,
		RetryMin:      200 * time.Millisecond,
		RetryMax:      30 * time.Second,
		RevokeTimeout: 5 * time.Second,
		WindowAge:     10 * time.Minute,
	}
}

// databaseName is what may be the name of the database: it needs no quotes.
var databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// Validate reports every setting that is out of range.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !databaseName.MatchString(c.Database) {
		bad("database is %q, want a name of letters, digits and _", c.Database)
	}
	if c.KeepMembership && c.InstanceID == "" {
		errs = append(errs, errors.New("keep membership needs an instance id: a dynamic member cannot come back"))
	}
	if c.BatchRows < 1 || c.BatchRows > row.MaxRows {
		bad("batch rows is %d, want 1 to %d: all rows of a batch must be one block", c.BatchRows, row.MaxRows)
	}
	if c.BatchBytes < 1<<10 || c.BatchBytes > 64<<20 {
		bad("batch bytes is %d, want 1 KiB to 64 MiB", c.BatchBytes)
	}
	if c.MemoryBytes < c.BatchBytes {
		bad("memory bytes is %d, want at least batch bytes, %d", c.MemoryBytes, c.BatchBytes)
	}
	if c.Inserts < 1 || c.Inserts > 64 {
		bad("inserts is %d, want 1 to 64", c.Inserts)
	}
	if !(c.InsertRate > 0) {
		bad("insert rate is %g, want more than 0", c.InsertRate)
	}
	if c.LingerMax < c.LingerMin {
		bad("linger max is %s, want at least linger min, %s", c.LingerMax, c.LingerMin)
	}
	if c.RetryMax < c.RetryMin {
		bad("retry max is %s, want at least retry min, %s", c.RetryMax, c.RetryMin)
	}
	positive := func(name string, d time.Duration) {
		if d <= 0 {
			bad("%s is %s, want more than 0", name, d)
		}
	}
	positive("linger min", c.LingerMin)
	positive("insert timeout", c.InsertTimeout)
	positive("retry min", c.RetryMin)
	positive("revoke timeout", c.RevokeTimeout)
	positive("window age", c.WindowAge)
	return errors.Join(errs...)
}
