package ingest

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hookline/hookline/ingest/event"
)

// caller is who a request comes from, as its key says.
type caller struct {
	tenant string
	source string // ce_source of what it publishes
	hash   [sha256.Size]byte
	bucket *bucket // nil = no limit
	share  *share
}

// keyring holds the keys by their hashes: a dump of the process shows no key. It is never
// changed after parseKeys.
type keyring struct {
	// byPrefix finds the few candidates by eight bytes of the hash, so that a thousand
	// keys cost as little as one. The prefix of a hash tells nothing about a key.
	byPrefix map[uint64][]*caller
	limit    Limit // of keys that name none
	size     int
}

const hashMark = "sha256="

// SetKeys puts keys in the form of Config.APIKeys in the place of those in force, all at once:
// a request sees either the old ones or the new ones. Keys with a fault change nothing.
func (s *Server) SetKeys(items []string) error {
	ring, err := parseKeys(items, s.cfg.Limit)
	if err != nil {
		return fmt.Errorf("read API keys: %w", err)
	}
	ring.inherit(s.keys.Load())
	s.put(ring)
	return nil
}

// put makes ring the keys in force. Who is alone has nobody to leave room for.
func (s *Server) put(ring *keyring) {
	if ring.size == 1 && len(s.sources) == 0 {
		for _, callers := range ring.byPrefix {
			callers[0].share = nil
		}
	}
	s.keys.Store(ring)
}

// inherit takes over what old knows of keys that are in both: a reload must not fill anybody's
// bucket.
func (k *keyring) inherit(old *keyring) {
	for prefix, callers := range k.byPrefix {
		for _, c := range callers {
			for _, was := range old.byPrefix[prefix] {
				if was.hash != c.hash {
					continue
				}
				if was.share != nil {
					c.share = was.share
				}
				if c.bucket != nil && was.bucket != nil && c.bucket.limit == was.bucket.limit {
					c.bucket = was.bucket
				}
			}
		}
	}
}

// parseKeys reads keys in the forms of Config.APIKeys; def is the limit of those that name none. Its errors name the place of a bad
// item but never quote it: an item without a tenant may be a bare key.
func parseKeys(items []string, def Limit) (*keyring, error) {
	ring := &keyring{byPrefix: map[uint64][]*caller{}, limit: def}
	var errs []error
	count := 0
	for i, item := range items {
		lines, err := keyLines(item)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, line := range lines {
			count++
			if err := ring.add(line); err != nil {
				errs = append(errs, fmt.Errorf("item %d: %w", i+1, err))
			}
		}
	}
	if count == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no key is given: nobody could publish"))
	}
	return ring, errors.Join(errs...)
}

// keyLines splits an item at commas, or reads the file it names.
func keyLines(item string) ([]string, error) {
	text := item
	if name, ok := strings.CutPrefix(strings.TrimSpace(item), "@"); ok {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read key file: %w", err)
		}
		text = string(content)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			continue
		}
		for part := range strings.SplitSeq(line, ",") {
			if part = strings.TrimSpace(part); part != "" {
				lines = append(lines, part)
			}
		}
	}
	return lines, nil
}

func (k *keyring) add(line string) error {
	tenant, key, ok := strings.Cut(line, ":")
	if !ok || !event.ValidTenant(tenant) {
		return errors.New("want tenant:key with a tenant of [A-Za-z0-9_-]{1,64}")
	}
	key, limit, err := keyOptions(key, k.limit)
	if err != nil {
		return fmt.Errorf("a key of tenant %s: %w", tenant, err)
	}
	c := &caller{tenant: tenant, source: event.PublishSource(tenant), bucket: newBucket(limit), share: &share{}}
	if digest, ok := strings.CutPrefix(key, hashMark); ok {
		sum, err := hex.DecodeString(digest)
		if err != nil || len(sum) != len(c.hash) {
			return fmt.Errorf("a hash of tenant %s is not 64 hexadecimal digits", tenant)
		}
		copy(c.hash[:], sum)
	} else if !validKey(key) {
		return fmt.Errorf("a key of tenant %s is not 1 to %d characters of visible ASCII", tenant, maxKey)
	} else {
		c.hash = sha256.Sum256([]byte(key))
	}
	for _, other := range k.byPrefix[prefixOf(&c.hash)] {
		if other.hash == c.hash {
			return fmt.Errorf("a key of tenant %s is there twice", tenant)
		}
	}
	k.byPrefix[prefixOf(&c.hash)] = append(k.byPrefix[prefixOf(&c.hash)], c)
	k.size++
	return nil
}

const maxKey = 512

func validKey[T string | []byte](key T) bool {
	for i := 0; i < len(key); i++ {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return len(key) > 0 && len(key) <= maxKey
}

func prefixOf(hash *[sha256.Size]byte) uint64 { return binary.BigEndian.Uint64(hash[:8]) }

// find returns the caller that the value of an Authorization header names, nil for nobody.
// Whatever is wrong with the value, the work is one hash and a comparison of the whole.
func (k *keyring) find(authorization []byte) *caller {
	key := bearer(authorization)
	sum := sha256.Sum256(key)
	var found *caller
	for _, c := range k.byPrefix[prefixOf(&sum)] {
		if subtle.ConstantTimeCompare(c.hash[:], sum[:]) == 1 {
			found = c
		}
	}
	if !validKey(key) {
		return nil
	}
	return found
}

// bearer returns the key of "Bearer KEY", nothing for another scheme.
func bearer(authorization []byte) []byte {
	const scheme = "bearer"
	if len(authorization) <= len(scheme) || authorization[len(scheme)] != ' ' {
		return nil
	}
	for i := range scheme {
		if authorization[i]|0x20 != scheme[i] {
			return nil
		}
	}
	key := authorization[len(scheme):]
	for len(key) > 0 && key[0] == ' ' {
		key = key[1:]
	}
	return key
}
