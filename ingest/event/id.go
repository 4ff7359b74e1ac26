package event

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/oklog/ulid/v2"
)

// Prefixes of the ids that hookline makes. Window A of the dispatcher keeps no state for
// random ids (IsRandomID): only ingest makes them and never twice.
const (
	prefixRandom   = "evt_u" // ULID: no idempotency key was given
	prefixDerived  = "evt_k" // from tenant, type, message id and idempotency key
	prefixPosition = "evt_p" // from topic, partition, offset: a Kafka producer gave no ce_id
)

// idEncoding is Crockford's alphabet, the one that a ULID uses, so that all ids look alike.
var idEncoding = base32.NewEncoding(ulid.Encoding).WithPadding(base32.NoPadding)

const (
	derivedBytes = 20 // 160 bits of SHA-256: no collision by chance at any volume
	derivedLen   = derivedBytes * 8 / 5
)

// NewID returns a fresh random id, "evt_u" + ULID. Safe for concurrent use.
func NewID() string {
	var buf [len(prefixRandom) + ulid.EncodedSize]byte
	return string(AppendNewID(buf[:0]))
}

// AppendNewID appends what NewID returns.
func AppendNewID(dst []byte) []byte {
	var id ulid.ULID
	// The error says that the year is past 10889.
	_ = id.SetTime(uint64(time.Now().UnixMilli()))
	// ChaCha8 seeded by the system, without the lock of ulid's default entropy. An id is
	// not a secret, it only has to be unique.
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	binary.BigEndian.PutUint16(id[6:], uint16(rand.Uint32()))
	dst = append(dst, prefixRandom...)
	dst = append(dst, make([]byte, ulid.EncodedSize)...)
	// The error says that the buffer is too short, which it is not.
	_ = id.MarshalTextTo(dst[len(dst)-ulid.EncodedSize:])
	return dst
}

// DeriveID returns the id of a publish with an idempotency key: equal arguments give an
// equal id on every node, with no shared store. All four parts are hashed with their
// lengths, so that moving a character from one to the next changes the id.
func DeriveID(tenant, eventType, messageID, key string) string {
	return hashedID(prefixDerived, tenant, eventType, messageID, key)
}

// AppendDerivedID appends what DeriveID returns.
func AppendDerivedID(dst []byte, tenant, eventType, messageID, key string) []byte {
	return appendHashedID(dst, prefixDerived, tenant, eventType, messageID, key)
}

// DeriveCloudID is DeriveID for a CloudEvent: its source and id together are the key. No
// idempotency key of another publish has the same id, since it is one part and not two.
func DeriveCloudID(tenant, eventType, messageID, source, id string) string {
	return hashedID(prefixDerived, tenant, eventType, messageID, source, id)
}

// positionID is the id of a record that carries none. The timestamp of the record takes
// part so that a topic that was wiped and filled again does not repeat ids.
func positionID(topic string, partition int32, offset, timestampMs int64) string {
	var pos [20]byte
	binary.BigEndian.PutUint32(pos[0:], uint32(partition))
	binary.BigEndian.PutUint64(pos[4:], uint64(offset))
	binary.BigEndian.PutUint64(pos[12:], uint64(timestampMs))
	return hashedID(prefixPosition, topic, string(pos[:]))
}

func hashedID(prefix string, parts ...string) string {
	var buf [len(prefixDerived) + derivedLen]byte
	return string(appendHashedID(buf[:0], prefix, parts...))
}

func appendHashedID(dst []byte, prefix string, parts ...string) []byte {
	var stack [512]byte
	in := append(stack[:0], prefix...)
	for _, p := range parts {
		in = binary.AppendUvarint(in, uint64(len(p)))
		in = append(in, p...)
	}
	sum := sha256.Sum256(in)
	dst = append(dst, prefix...)
	return idEncoding.AppendEncode(dst, sum[:derivedBytes])
}

// IsRandomID says whether id is one that NewID made: exactly its form, not only its prefix.
func IsRandomID(id string) bool {
	// 26 characters hold 130 bits, a ULID 128.
	return formOf(id, prefixRandom, ulid.EncodedSize) && id[len(prefixRandom)] <= '7'
}

// madeByIngest says whether id has the form of NewID or DeriveID.
func madeByIngest(id string) bool {
	return IsRandomID(id) || formOf(id, prefixDerived, derivedLen)
}

// formOf says whether id is the prefix and n characters of the ids' alphabet.
func formOf(id, prefix string, n int) bool {
	if len(id) != len(prefix)+n || !strings.HasPrefix(id, prefix) {
		return false
	}
	for i := len(prefix); i < len(id); i++ {
		if strings.IndexByte(ulid.Encoding, id[i]) < 0 {
			return false
		}
	}
	return true
}

// BodyHash is the fingerprint by which two publishes with one id are told to be equal.
func BodyHash(body []byte) uint64 { return xxhash.Sum64(body) }
