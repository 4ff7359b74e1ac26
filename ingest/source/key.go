package source

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Secrets returns the secrets of a source as they are now, resolved. It is called for each
// request, so it must not block, and nobody changes the slice.
type Secrets func() []string

// Fixed are secrets that never change.
func Fixed(texts ...string) Secrets { return func() []string { return texts } }

// key is one secret in the form that its scheme needs: one of the two is set.
type key struct {
	mac []byte
	pub ed25519.PublicKey
}

// keySet remembers the keys of a list of secrets, so that decoding is done once.
type keySet struct {
	texts []string
	keys  []key
}

// keys returns the keys of the secrets as they are now. A secret that does not fit the
// scheme is left out: who reads secrets checks them with Spec.CheckSecret.
func (s *Source) keys() []key {
	texts := s.secrets()
	if set := s.cached.Load(); set != nil && slices.Equal(set.texts, texts) {
		return set.keys
	}
	set := &keySet{texts: slices.Clone(texts)}
	for _, text := range texts {
		if k, err := s.spec.parseKey(text); err == nil {
			set.keys = append(set.keys, k)
		}
	}
	s.cached.Store(set)
	return set.keys
}

// CheckSecret says why a resolved secret does not fit the scheme, nil if it does. The error
// never holds it.
func (s *Spec) CheckSecret(text string) error {
	_, err := s.parseKey(text)
	return err
}

func (s *Spec) parseKey(text string) (key, error) {
	if text == "" {
		return key{}, errors.New("is empty: anyone could sign with it")
	}
	encoding := "text"
	switch s.Scheme {
	case SchemeStandardWebhooks:
		if public, ok := strings.CutPrefix(text, "whpk_"); ok {
			return parsePublic(public)
		}
		if strings.HasPrefix(text, "whsk_") {
			return key{}, errors.New("is a signing key (whsk_) of the provider; give its public key (whpk_)")
		}
		text, encoding = strings.TrimPrefix(text, "whsec_"), "base64"
	case SchemeHMAC:
		encoding = s.HMAC.SecretEncoding
	}
	var mac []byte
	var err error
	switch encoding {
	case "base64":
		mac, err = base64.StdEncoding.DecodeString(text)
		if err != nil {
			mac, err = base64.RawStdEncoding.DecodeString(text)
		}
	case "hex":
		mac, err = hex.DecodeString(text)
	default:
		mac = []byte(text)
	}
	if err != nil {
		return key{}, fmt.Errorf("is not in %s", encoding) // err would quote a byte of it
	}
	if len(mac) == 0 {
		return key{}, errors.New("is empty: anyone could sign with it")
	}
	return key{mac: mac}, nil
}

func parsePublic(text string) (key, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return key{}, errors.New("is not whpk_ and 32 bytes in base64")
	}
	return key{pub: raw}, nil
}
