package signature

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

// Prefixes of the text forms.
const (
	PrefixSymmetric = "whsec_" // base64 of 24..64 random bytes
	PrefixPrivate   = "whsk_"  // base64 of an Ed25519 seed and its public key, 64 bytes
	PrefixPublic    = "whpk_"  // base64 of an Ed25519 public key, 32 bytes
)

const (
	minSecret = 24
	maxSecret = 64
	newSecret = 32
)

// ErrSecret is wrapped by every error of ParseSecret and ParsePublic.
var ErrSecret = errors.New("bad webhook secret")

// Key signs, or at least verifies. It is safe for concurrent use and cheap to copy.
// The zero Key is invalid.
type Key struct {
	k *key
}

type key struct {
	macs    sync.Pool          // *mac; nil New for Ed25519
	private ed25519.PrivateKey // nil for HMAC and for verify-only keys
	public  ed25519.PublicKey  // nil for HMAC
}

// mac is a keyed hash with the buffers of one signature.
type mac struct {
	hash hash.Hash
	buf  []byte
	sum  [sha256.Size]byte
}

// ParseSecret reads a signing key: whsec_ (v1) or whsk_ (v1a).
func ParseSecret(s string) (Key, error) {
	switch {
	case strings.HasPrefix(s, PrefixSymmetric):
		raw, err := decodeKey(s[len(PrefixSymmetric):])
		if err != nil {
			return Key{}, err
		}
		if len(raw) < minSecret || len(raw) > maxSecret {
			return Key{}, fmt.Errorf("%w: %d bytes after decoding, want %d to %d", ErrSecret, len(raw), minSecret, maxSecret)
		}
		k := &key{}
		k.macs.New = func() any { return &mac{hash: hmac.New(sha256.New, raw)} }
		return Key{k}, nil
	case strings.HasPrefix(s, PrefixPrivate):
		raw, err := decodeKey(s[len(PrefixPrivate):])
		if err != nil {
			return Key{}, err
		}
		if len(raw) != ed25519.PrivateKeySize {
			return Key{}, fmt.Errorf("%w: %d bytes after decoding, want %d", ErrSecret, len(raw), ed25519.PrivateKeySize)
		}
		private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if !private.Equal(ed25519.PrivateKey(raw)) {
			return Key{}, fmt.Errorf("%w: its public half does not belong to its seed", ErrSecret)
		}
		return Key{&key{private: private, public: private.Public().(ed25519.PublicKey)}}, nil
	}
	return Key{}, fmt.Errorf("%w: want %sKEY or %sKEY", ErrSecret, PrefixSymmetric, PrefixPrivate)
}

// ParsePublic reads a whpk_ key, which verifies v1a and signs nothing.
func ParsePublic(s string) (Key, error) {
	text, ok := strings.CutPrefix(s, PrefixPublic)
	if !ok {
		return Key{}, fmt.Errorf("%w: want %sKEY", ErrSecret, PrefixPublic)
	}
	raw, err := decodeKey(text)
	if err != nil {
		return Key{}, err
	}
	if len(raw) != ed25519.PublicKeySize {
		return Key{}, fmt.Errorf("%w: %d bytes after decoding, want %d", ErrSecret, len(raw), ed25519.PublicKeySize)
	}
	return Key{&key{public: raw}}, nil
}

// decodeKey refuses what base64 would let pass in silence (line ends) and keeps the text
// out of the error.
func decodeKey(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, fmt.Errorf("%w: holds a line end", ErrSecret)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%w: not standard padded base64", ErrSecret)
	}
	return raw, nil
}

// NewSecret makes a random whsec_ secret of 32 bytes.
func NewSecret() string {
	var raw [newSecret]byte
	_, _ = rand.Read(raw[:]) // never fails: the runtime ends the process instead
	return PrefixSymmetric + base64.StdEncoding.EncodeToString(raw[:])
}

// NewPrivate makes a random whsk_ key and the whpk_ key that its receivers verify with.
func NewPrivate() (private, public string) {
	var seed [ed25519.SeedSize]byte
	_, _ = rand.Read(seed[:])
	k := ed25519.NewKeyFromSeed(seed[:])
	return PrefixPrivate + base64.StdEncoding.EncodeToString(k), publicText(k.Public().(ed25519.PublicKey))
}

func publicText(k ed25519.PublicKey) string {
	return PrefixPublic + base64.StdEncoding.EncodeToString(k)
}

// Public returns the whpk_ form of an Ed25519 key, "" for a symmetric one.
func (k Key) Public() string {
	if k.k == nil || k.k.public == nil {
		return ""
	}
	return publicText(k.k.public)
}

// String keeps keys out of logs.
func (k Key) String() string { return "[redacted]" }

// GoString keeps keys out of %#v.
func (k Key) GoString() string { return "signature.Key{[redacted]}" }
