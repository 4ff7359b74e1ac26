package source

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some providers sign with nothing better; only when the settings ask for it
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/hookline/hookline/ingest/event"
)

// Codes of a Refusal. CONTRACT: they are the codes of the answer.
const (
	CodeBadSignature   = "bad_signature"
	CodeStaleTimestamp = "stale_timestamp"
)

// Refusal says why a request is not believed.
type Refusal struct {
	Code   string
	Detail string // quotes nothing of the request
}

func (r *Refusal) Error() string { return r.Detail }

func badSignature(detail string) error { return &Refusal{CodeBadSignature, detail} }

// Proof is what a verified request is known by.
type Proof struct {
	signed [sha256.Size]byte // of what was signed, whatever the secret
}

// Verify says whether r was signed with one of the secrets, over the bytes as they came, at
// a time within the tolerance of now. Nothing of the body is parsed before. The error is nil
// or a *Refusal: who does not have a secret learns nothing about the time.
func (s *Source) Verify(r *Request, now time.Time) (Proof, error) {
	c, err := s.claimOf(r)
	if err != nil {
		return Proof{}, err
	}
	if !s.signed(&c, s.keys()) {
		return Proof{}, badSignature("no signature of the request fits its body and a secret of the source")
	}
	if err := s.timely(r, &c, now); err != nil {
		return Proof{}, err
	}
	return Proof{digest(c.parts)}, nil
}

// signed compares every signature with every key, whichever fits: the time that it takes
// tells nothing. The encoded forms are compared, so that a signature has one form only.
func (s *Source) signed(c *claim, keys []key) bool {
	fits := 0
	for _, k := range keys {
		if k.pub != nil {
			fits |= signedEd25519(c, k.pub)
			continue
		}
		mac := hmac.New(s.newHash, k.mac)
		for _, part := range c.parts {
			mac.Write(raw(part))
		}
		for _, want := range s.encode(mac.Sum(nil)) {
			for _, token := range c.tokens {
				fits |= subtle.ConstantTimeCompare([]byte(token), []byte(want))
			}
		}
	}
	return fits == 1
}

func signedEd25519(c *claim, pub ed25519.PublicKey) int {
	fits := 0
	for _, token := range c.edTokens {
		signature, err := base64.StdEncoding.Strict().DecodeString(token)
		if err == nil && ed25519.Verify(pub, []byte(strings.Join(c.parts, "")), signature) {
			fits = 1
		}
	}
	return fits
}

func (s *Source) newHash() hash.Hash {
	switch s.algorithm {
	case "sha1":
		return sha1.New() //nolint:gosec // as above
	case "sha512":
		return sha512.New()
	}
	return sha256.New()
}

// raw is the bytes of s without a copy; nobody writes to them.
func raw(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// digest is of the parts with their lengths: moving a byte from one to the next changes it.
func digest(parts []string) (out [sha256.Size]byte) {
	h := sha256.New()
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(raw(part))
	}
	h.Sum(out[:0])
	return out
}

// encode returns the forms in which the scheme writes a MAC.
func (s *Source) encode(sum []byte) []string {
	switch s.encoding {
	case "base64":
		return []string{base64.StdEncoding.EncodeToString(sum)}
	case "base64url":
		return []string{base64.URLEncoding.EncodeToString(sum), base64.RawURLEncoding.EncodeToString(sum)}
	}
	out := []string{hex.EncodeToString(sum)}
	if s.spec.Scheme == SchemeHMAC {
		out = append(out, strings.ToUpper(out[0]))
	}
	return out
}

// timely checks the signed time, if the scheme has one.
func (s *Source) timely(r *Request, c *claim, now time.Time) error {
	if !s.stamped {
		return nil
	}
	text, parse := c.timestamp, unixSeconds
	if s.spec.Scheme == SchemeHMAC {
		parse = anyTime
		if s.spec.HMAC.Timestamp.kind == selectJSON {
			values, err := s.bodyTime.Find(r.Body)
			if err != nil {
				return &Refusal{CodeStaleTimestamp, "the time of the body cannot be read: " + err.Error()}
			}
			text, _ = scalar(values[0])
		}
	}
	at, ok := parse(text)
	if !ok {
		return &Refusal{CodeStaleTimestamp, "the signed time cannot be read"}
	}
	switch age := now.Sub(at); {
	case age > s.spec.Tolerance:
		return &Refusal{CodeStaleTimestamp, "the signed time is more than " + s.spec.Tolerance.String() + " ago"}
	case age < -s.spec.Tolerance:
		return &Refusal{CodeStaleTimestamp, "the signed time is more than " + s.spec.Tolerance.String() + " ahead"}
	}
	return nil
}

// unixSeconds takes digits only: a sign, a fraction or a blank is not what was meant.
func unixSeconds(s string) (time.Time, bool) {
	n, ok := digits(s)
	if !ok || n >= 1e11 { // the year 5138: milliseconds in the wrong place
		return time.Time{}, false
	}
	return time.Unix(n, 0), true
}

// anyTime takes seconds, milliseconds or RFC 3339.
func anyTime(s string) (time.Time, bool) {
	if n, ok := digits(s); ok {
		if n >= 1e11 {
			return time.UnixMilli(n), true
		}
		return time.Unix(n, 0), true
	}
	t, err := event.ParseTime(s)
	return t, err == nil
}

func digits(s string) (int64, bool) {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	if s == "" || len(s) > 15 {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
