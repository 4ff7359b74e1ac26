package endpoint

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hookline/hookline/dispatcher/signature"
)

// MaxKeys is how many keys of one endpoint are valid at once: a further rotation ends the
// oldest.
const MaxKeys = 3

// Key is one signing key of an endpoint.
type Key struct {
	Secret    string // text form: whsec_... or whsk_...
	CreatedAt time.Time
	NotAfter  time.Time // end of the grace period; zero = the current key
}

// Active reports whether a delivery at now is signed with k too.
func (k *Key) Active(now time.Time) bool { return k.NotAfter.IsZero() || now.Before(k.NotAfter) }

// Last4 is what may be shown of a secret after its creation.
func (k *Key) Last4() string {
	if len(k.Secret) < 12 { // never most of a short text
		return ""
	}
	return k.Secret[len(k.Secret)-4:]
}

// LogValue keeps the secret out of logs.
func (k Key) LogValue() slog.Value { return slog.StringValue("key ..." + k.Last4()) }

// String keeps the secret out of formatted text.
func (k Key) String() string { return "key ..." + k.Last4() }

// Rotate makes secret the current key. The one before it stays valid for grace; keys whose
// grace is over go, and so does the oldest beyond MaxKeys.
func (e *Endpoint) Rotate(secret string, grace time.Duration, now time.Time) {
	keys := make([]Key, 0, MaxKeys)
	keys = append(keys, Key{Secret: secret, CreatedAt: now})
	for _, k := range e.Keys {
		if k.NotAfter.IsZero() {
			k.NotAfter = now.Add(grace)
		}
		if k.Active(now) && len(keys) < MaxKeys {
			keys = append(keys, k)
		}
	}
	e.Keys = keys
	e.Secret = ""
}

// checkSecret reports whether a key can sign under a scheme. Its error never holds the key.
func checkSecret(scheme, secret string) error {
	if _, err := signature.ParseSecret(secret); err != nil {
		return err
	}
	if private := strings.HasPrefix(secret, signature.PrefixPrivate); private != (scheme == SignatureV1a) {
		return fmt.Errorf("%w: signature %s takes %s for v1, %s for v1a", signature.ErrSecret, scheme,
			signature.PrefixSymmetric, signature.PrefixPrivate)
	}
	return nil
}
