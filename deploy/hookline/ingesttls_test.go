package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookline/hookline/deploy/local/brokertest"
)

// makeCert returns a self-signed certificate for 127.0.0.1 and its key, in PEM.
func makeCert(t *testing.T, name string) (cert, key []byte, leaf *x509.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), leaf
}

func replaceFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// The certificate is changed while clients connect all the time: none of them fails, and the
// new one is shown soon. A broken pair changes nothing.
func TestCertificateIsReloadedUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	oldCert, oldKey, oldLeaf := makeCert(t, "old")
	newCert, newKey, newLeaf := makeCert(t, "new")
	replaceFile(t, certFile, oldCert)
	replaceFile(t, keyFile, oldKey)
	r := startRigWith(t, brokertest.Start(t), flagValues{"ingest.tls.cert": certFile, "ingest.tls.key": keyFile}, roleIngest)
	if !strings.HasPrefix(r.node.ingestURL(), "https://127.0.0.1:") {
		t.Errorf("URL is %s", r.node.ingestURL())
	}
	roots := x509.NewCertPool()
	roots.AddCert(oldLeaf)
	roots.AddCert(newLeaf)
	addr := r.node.ingestListener.Addr().String()
	shown := func() (string, error) {
		conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			return "", err
		}
		defer conn.Close() //nolint:errcheck // only the handshake is wanted
		if p := conn.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
			return "", fmt.Errorf("ALPN chose %q", p)
		}
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	var handshakes atomic.Int64
	for range 3 {
		load.Go(func() {
			for ctx.Err() == nil {
				if _, err := shown(); err != nil {
					t.Errorf("handshake: %v", err)
					return
				}
				handshakes.Add(1)
			}
		})
	}
	wait := func(want string) {
		t.Helper()
		poll(t, func() bool { got, err := shown(); return err == nil && got == want })
	}
	failing := func() bool { return r.node.settingFails(t, "ingest.tls") }
	wait("old")
	replaceFile(t, certFile, newCert) // with the old key: broken
	poll(t, failing)
	if got, err := shown(); err != nil || got != "old" {
		t.Errorf("with a broken pair: %q, %v", got, err)
	}
	began := time.Now()
	replaceFile(t, keyFile, newKey)
	wait("new")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the new certificate is shown after %s", took)
	}
	poll(t, func() bool { return !failing() })
	cancel()
	load.Wait()
	if handshakes.Load() == 0 {
		t.Error("no handshake was made meanwhile")
	}
	if conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS11}); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
	if conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}); err == nil {
		_ = conn.Close()
		t.Error("h2 is agreed to")
	}
}

func TestClientsMustShowACertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, leaf := makeCert(t, "server")
	clientCert, clientKey, _ := makeCert(t, "client")
	for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": clientCert} {
		replaceFile(t, filepath.Join(dir, name), text)
	}
	r := startRigWith(t, brokertest.Start(t), flagValues{
		"ingest.tls.cert": dir + "/tls.crt", "ingest.tls.key": dir + "/tls.key", "ingest.tls.client_ca": dir + "/ca.crt"}, roleIngest)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	pair, err := tls.X509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, certs := range [][]tls.Certificate{nil, {pair}} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certs}}}
		resp, err := client.Get(r.node.ingestURL() + "/healthz")
		if (err == nil) != (certs != nil) {
			t.Errorf("%d client certificates: %v", len(certs), err)
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		client.CloseIdleConnections()
	}
}

func TestFaultsOfTLSSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, _ := makeCert(t, "a")
	_, other, _ := makeCert(t, "b")
	for name, text := range map[string][]byte{"crt": cert, "key": key, "other": other, "empty": []byte("\n"), "text": []byte("text")} {
		replaceFile(t, filepath.Join(dir, name), text)
	}
	for _, c := range []struct{ cert, key, ca, want string }{
		{"crt", "key", "", ""}, {"crt", "key", "crt", ""}, {"crt", "", "", "together"}, {"", "key", "", "together"}, {"", "", "crt", "together"},
		{"crt", "other", "", "certificate and key"}, {"crt", "nothing", "", "key: "}, {"empty", "key", "", "certificate: "}, {"text", "key", "", "certificate and key"},
		{"crt", "key", "text", "client authorities"},
	} {
		flags := flagValues{}
		for name, file := range map[string]string{"cert": c.cert, "key": c.key, "client_ca": c.ca} {
			if file != "" {
				flags["ingest.tls."+name] = filepath.Join(dir, file)
			}
		}
		_, problems := decodeFile(t, "{}", nil, flags, dev)
		text := fmt.Sprint(problems)
		if (c.want == "") != (len(problems) == 0) || !strings.Contains(text, c.want) || strings.Contains(text, "PRIVATE") {
			t.Errorf("%+v: %s", c, text)
		}
	}
}

// A command in the directory of the server finds it, speaks TLS, and takes no other certificate.
func TestCommandsSpeakTLSToTheirOwnServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, _ := makeCert(t, "server")
	strange, _, _ := makeCert(t, "stranger")
	for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": key, "strange.crt": strange} {
		replaceFile(t, filepath.Join(dir, name), text)
	}
	r := startRigWith(t, brokertest.Start(t), flagValues{"ingest.tls.cert": dir + "/tls.crt", "ingest.tls.key": dir + "/tls.key"}, roleIngest)
	for file, ok := range map[string]bool{"tls.crt": true, "strange.crt": false} {
		environ := []string{"HOOKLINE_INGEST_ADDR=" + r.node.ingestListener.Addr().String(), "HOOKLINE_INGEST_TLS_CERT=" + filepath.Join(dir, file), "HOOKLINE_API_KEYS=dev:dev"}
		a := &app{stdin: strings.NewReader(`{"event":"a.b","message_id":"m"}`), stdout: io.Discard, stderr: io.Discard, environ: environ}
		if code := a.run([]string{"events", "publish", "-"}); (code == exitOK) != ok {
			t.Errorf("%s: exit code %d", file, code)
		}
	}
}
