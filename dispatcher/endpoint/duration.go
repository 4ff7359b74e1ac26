package endpoint

import (
	"fmt"
	"time"
)

// String is the Go duration form, shortened where Go writes zero units ("72h", not "72h0m0s").
func (d Duration) String() string {
	t := time.Duration(d)
	switch {
	case t != 0 && t%time.Hour == 0:
		return fmt.Sprintf("%dh", t/time.Hour)
	case t != 0 && t%time.Minute == 0 && t < time.Hour && t > -time.Hour:
		return fmt.Sprintf("%dm", t/time.Minute)
	default:
		return t.String()
	}
}

// MarshalText makes a Duration a string in JSON, YAML and every other text form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a Go duration string. A bare number is refused: its unit is a guess.
func (d *Duration) UnmarshalText(b []byte) error {
	t, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("parse duration %.32q: want a form like \"5s\" or \"72h\"", b)
	}
	*d = Duration(t)
	return nil
}
