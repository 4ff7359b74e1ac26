package signature

import (
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Tolerance is the window that the reference libraries use.
const Tolerance = 5 * time.Minute

// maxSlow bounds the Ed25519 checks that one header can ask for.
const maxSlow = 8

// Errors of Verify.
var (
	// ErrHeaders: a header is missing or not in the form of the specification.
	ErrHeaders = errors.New("bad webhook headers")
	// ErrTimestamp: the timestamp is outside the tolerance.
	ErrTimestamp = errors.New("webhook timestamp outside tolerance")
	// ErrSignature: no signature of the header is by one of the keys.
	ErrSignature = errors.New("no matching webhook signature")
)

// Signed is what arrived: the three headers as text, and the raw body.
type Signed struct {
	ID        string
	Timestamp string // unix seconds, digits only
	Signature string // space-delimited tokens
	Body      []byte
}

// Verify accepts when any token of the header is valid under any of the keys and the
// timestamp lies within tolerance of now (tolerance 0 = any time, for stored deliveries).
// Comparison is in constant time. Signatures are checked before the time, so that an error
// about the time is about a genuine sender.
func Verify(keys []Key, s Signed, now time.Time, tolerance time.Duration) error {
	ts, err := parseTimestamp(s.Timestamp)
	if err != nil {
		return err
	}
	if s.ID == "" || s.Signature == "" {
		return fmt.Errorf("%w: id and signature are required", ErrHeaders)
	}
	if !match(keys, s, ts) {
		return ErrSignature
	}
	if tolerance > 0 {
		if off := now.Sub(time.Unix(ts, 0)); off > tolerance || off < -tolerance {
			return fmt.Errorf("%w: off by %s", ErrTimestamp, off.Round(time.Second))
		}
	}
	return nil
}

// parseTimestamp takes 1..11 digits: no sign, no fraction, no milliseconds (13 digits).
func parseTimestamp(s string) (int64, error) {
	if len(s) == 0 || len(s) > 11 {
		return 0, fmt.Errorf("%w: timestamp is not unix seconds", ErrHeaders)
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, fmt.Errorf("%w: timestamp is not unix seconds", ErrHeaders)
		}
	}
	return strconv.ParseInt(s, 10, 64)
}

func match(keys []Key, s Signed, ts int64) bool {
	ok := 0
	slow := maxSlow
	var want [64]byte
	var signed []byte
	for _, k := range keys {
		if k.k == nil {
			continue
		}
		var mac []byte
		if k.k.public == nil {
			mac = k.k.appendMAC(want[:0], s.ID, ts, s.Body)
		} else if signed == nil {
			signed = content(s.ID, ts, s.Body)
		}
		for token := range strings.SplitSeq(s.Signature, " ") {
			if mac != nil {
				if text, is := strings.CutPrefix(token, tokenV1); is {
					ok |= subtle.ConstantTimeCompare([]byte(text), mac)
				}
				continue
			}
			text, is := strings.CutPrefix(token, tokenV1a)
			if !is || slow == 0 {
				continue
			}
			slow--
			sig, err := base64.StdEncoding.DecodeString(text)
			if err == nil && len(sig) == ed25519.SignatureSize && ed25519.Verify(k.k.public, signed, sig) {
				ok = 1
			}
		}
	}
	return ok == 1
}
