package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"strconv"
)

// Header names of a delivery, in canonical form.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	tokenV1  = "v1,"
	tokenV1a = "v1a,"
)

// AppendSign appends the value of the signature header: one token per key in the order
// given (newest first), single spaces between. With a verify-only or zero key it panics.
func AppendSign(dst []byte, keys []Key, id string, ts int64, body []byte) []byte {
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ' ')
		}
		switch {
		case k.k == nil:
			panic("BUG: signature: sign with the zero key")
		case k.k.private != nil:
			sig := ed25519.Sign(k.k.private, content(id, ts, body))
			dst = append(dst, tokenV1a...)
			dst = base64.StdEncoding.AppendEncode(dst, sig)
		case k.k.public != nil:
			panic("BUG: signature: sign with a public key")
		default:
			dst = append(dst, tokenV1...)
			dst = k.k.appendMAC(dst, id, ts, body)
		}
	}
	return dst
}

// appendMAC appends the base64 of the HMAC.
func (k *key) appendMAC(dst []byte, id string, ts int64, body []byte) []byte {
	m := k.macs.Get().(*mac)
	m.hash.Reset()
	m.buf = appendHead(m.buf[:0], id, ts)
	m.hash.Write(m.buf)
	m.hash.Write(body)
	dst = base64.StdEncoding.AppendEncode(dst, m.hash.Sum(m.sum[:0]))
	k.macs.Put(m)
	return dst
}

func appendHead(dst []byte, id string, ts int64) []byte {
	dst = append(dst, id...)
	dst = append(dst, '.')
	dst = strconv.AppendInt(dst, ts, 10)
	return append(dst, '.')
}

func content(id string, ts int64, body []byte) []byte {
	return append(appendHead(make([]byte, 0, len(id)+22+len(body)), id, ts), body...)
}
