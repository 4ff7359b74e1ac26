package tier

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// LadderKey is the key under which control keeps the deployment's ladder.
const LadderKey = "ladder"

// ladderJSON is the form in control; durations are Go duration strings.
type ladderJSON struct {
	Steps []stepJSON `json:"steps"`
}

type stepJSON struct {
	Suffix string `json:"suffix"`
	Floor  string `json:"floor"`
	Width  string `json:"width"`
	Slots  int32  `json:"slots"`
	Shards int32  `json:"shards"`
}

// MarshalJSON writes the form that control keeps.
func (l Ladder) MarshalJSON() ([]byte, error) {
	out := ladderJSON{Steps: make([]stepJSON, 0, len(l.steps))}
	for _, s := range l.steps {
		out.Steps = append(out.Steps, stepJSON{
			Suffix: s.Suffix, Floor: s.Floor.String(), Width: s.Width.String(), Slots: s.Slots, Shards: s.Shards,
		})
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads and checks what MarshalJSON wrote. An unknown field is an error: a
// ladder that is understood in part places deliveries where nobody looks.
func (l *Ladder) UnmarshalJSON(b []byte) error {
	var in ladderJSON
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return fmt.Errorf("decode ladder: %w", err)
	}
	steps := make([]Step, 0, len(in.Steps))
	for i, s := range in.Steps {
		floor, err := time.ParseDuration(s.Floor)
		if err != nil {
			return fmt.Errorf("decode floor of ladder step %d: %w", i, err)
		}
		width, err := time.ParseDuration(s.Width)
		if err != nil {
			return fmt.Errorf("decode width of ladder step %d: %w", i, err)
		}
		steps = append(steps, Step{Suffix: s.Suffix, Floor: floor, Width: width, Slots: s.Slots, Shards: s.Shards})
	}
	checked, err := NewLadder(steps)
	if err != nil {
		return err
	}
	*l = checked
	return nil
}
