package endpoint

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// sealKeyBytes is the length of HOOKLINE_SECRET_KEY once decoded.
const sealKeyBytes = 32

// ErrUnknownSealKey means that a secret was sealed under a key that the Keyring does not hold.
var ErrUnknownSealKey = errors.New("sealed under a secret key that is not configured")

// Keyring seals endpoint secrets at rest. The first key seals, all of them open, so that a
// new key can be added in front and the records re-sealed. It is a value, safe for
// concurrent use; the zero Keyring refuses both.
type Keyring struct {
	active string
	keys   map[string]cipher.AEAD // by key id
}

// Sealed is one sealed text. Box is nonce, ciphertext and tag.
type Sealed struct {
	Box   []byte `json:"sealed"`
	KeyID string `json:"key_id"`
}

// NewKeyring takes one or more 32-byte keys in base64 (HOOKLINE_SECRET_KEY), the sealing one
// first. No error text holds a key.
func NewKeyring(keys ...string) (Keyring, error) {
	if len(keys) == 0 {
		return Keyring{}, errors.New("make keyring: no secret key")
	}
	ring := Keyring{keys: make(map[string]cipher.AEAD, len(keys))}
	for i, text := range keys {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err != nil || len(raw) != sealKeyBytes {
			return Keyring{}, fmt.Errorf("make keyring: secret key %d is not %d bytes in standard base64", i+1, sealKeyBytes)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return Keyring{}, fmt.Errorf("make keyring: %w", err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return Keyring{}, fmt.Errorf("make keyring: %w", err)
		}
		id := keyID(raw)
		if i == 0 {
			ring.active = id
		}
		ring.keys[id] = aead
	}
	return ring, nil
}

// keyID names a key without telling anything about it.
func keyID(raw []byte) string {
	sum := sha256.Sum256(append([]byte("hookline secret key id\x00"), raw...))
	return hex.EncodeToString(sum[:6])
}

// ActiveID is the id of the key that seals; records sealed under another id want resealing.
func (r Keyring) ActiveID() string { return r.active }

// String tells nothing about the keys.
func (r Keyring) String() string { return fmt.Sprintf("keyring of %d", len(r.keys)) }

// GoString tells nothing about the keys.
func (r Keyring) GoString() string { return r.String() }

// Seal seals plain for one use ("secret", "headers") of one endpoint.
func (r Keyring) Seal(use, tenant, id string, plain []byte) (Sealed, error) {
	aead, ok := r.keys[r.active]
	if !ok {
		return Sealed{}, errors.New("seal: no secret key is configured")
	}
	return Sealed{Box: aead.Seal(nil, nil, plain, associated(use, tenant, id)), KeyID: r.active}, nil
}

// Open opens what Seal sealed for the same use, tenant and endpoint.
func (r Keyring) Open(use, tenant, id string, s Sealed) ([]byte, error) {
	aead, ok := r.keys[s.KeyID]
	if !ok {
		return nil, fmt.Errorf("open %s: %w (key id %.16q)", use, ErrUnknownSealKey, s.KeyID)
	}
	plain, err := aead.Open(nil, nil, s.Box, associated(use, tenant, id))
	if err != nil {
		return nil, fmt.Errorf("open %s: damaged, or sealed for another endpoint: %w", use, err)
	}
	return plain, nil
}

// associated binds a box to its place. Lengths keep ("a","bc") and ("ab","c") apart.
func associated(parts ...string) []byte {
	out := []byte("hookline endpoint v1")
	for _, p := range parts {
		out = binary.AppendUvarint(out, uint64(len(p)))
		out = append(out, p...)
	}
	return out
}
