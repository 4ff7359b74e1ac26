package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ingestTLSConfig names the files of the ingest listener; without a certificate it speaks
// plain HTTP.
type ingestTLSConfig struct {
	Cert     string
	Key      string
	ClientCA string // clients must show a certificate of one of these authorities
}

func (c ingestTLSConfig) enabled() bool { return c.Cert != "" }

// liveIngestTLS is the TLS settings of the listener, following its files.
func liveIngestTLS(c ingestTLSConfig) *live[*tls.Config] {
	return newLive("ingest.tls", func(get resolver) (*tls.Config, error) { return c.read(get) })
}

func (c ingestTLSConfig) read(get resolver) (*tls.Config, error) {
	cert, err := get("file:" + c.Cert)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	key, err := get("file:" + c.Key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return nil, fmt.Errorf("certificate and key: %w", err)
	}
	out := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if c.ClientCA == "" {
		return out, nil
	}
	ca, err := get("file:" + c.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("client authorities: %w", err)
	}
	out.ClientCAs = x509.NewCertPool()
	if !out.ClientCAs.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("client authorities: the file holds no certificate")
	}
	out.ClientAuth = tls.RequireAndVerifyClientCert
	out.SessionTicketsDisabled = true // a resumed session would outlive an authority that was taken away
	return out, nil
}

// tlsInForce gives each new connection the settings of the day; connections that are open
// keep theirs.
type tlsInForce struct {
	now atomic.Pointer[tls.Config]
	log *slog.Logger
}

// startTLS makes the listener's settings follow their files. It returns nil without TLS.
func (n *node) startTLS() (*tls.Config, error) {
	if !n.cfg.Ingest.TLS.enabled() {
		return nil, nil
	}
	l := liveIngestTLS(n.cfg.Ingest.TLS)
	first, err := l.load()
	if err != nil {
		return nil, fmt.Errorf("ingest.tls: %w", err)
	}
	t := &tlsInForce{log: n.log}
	if err := t.set(first); err != nil {
		return nil, err
	}
	follow(n.reloads, l, t.set)
	err = n.reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hookline_ingest_tls_not_after_timestamp_seconds",
		Help: "When the certificate of the ingest listener ends."}, func() float64 { return float64(t.notAfter().Unix()) }))
	if err != nil {
		return nil, fmt.Errorf("register metrics of the certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.now.Load(), nil },
	}, nil
}

func (t *tlsInForce) set(c *tls.Config) error {
	t.now.Store(c)
	if end := t.notAfter(); time.Now().After(end) {
		t.log.Error("the certificate of the ingest listener has ended; clients will refuse it", "not_after", end)
	}
	return nil
}

func (t *tlsInForce) notAfter() time.Time { return t.now.Load().Certificates[0].Leaf.NotAfter }

// pinned makes a client take the very certificate that the settings name, whatever it is
// called: a command in the server's directory speaks to 127.0.0.1.
func pinned(certFile string) (*tls.Config, error) {
	raw, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("read ingest.tls.cert: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("ingest.tls.cert holds no certificate")
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(s tls.ConnectionState) error {
			if !bytes.Equal(s.PeerCertificates[0].Raw, block.Bytes) {
				return errors.New("the server shows another certificate than ingest.tls.cert holds")
			}
			return nil
		},
	}, nil
}
