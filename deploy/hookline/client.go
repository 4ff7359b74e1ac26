package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// adminFlags find the admin API.
type adminFlags struct {
	Admin string `help:"Admin API (HOOKLINE_ADMIN_URL)." placeholder:"URL" group:"Server"`
	Token string `help:"Admin token (HOOKLINE_ADMIN_TOKEN)." placeholder:"TOKEN" group:"Server"`
}

// ingestFlags find the ingest listener.
type ingestFlags struct {
	Ingest string `help:"Ingest listener (HOOKLINE_INGEST_URL)." placeholder:"URL" group:"Server"`
	APIKey string `name:"api-key" help:"Publishing key (HOOKLINE_API_KEY)." placeholder:"KEY" group:"Server"`
}

// apiClient speaks to one listener.
type apiClient struct {
	base  string
	token string
	hint  string // how to name another server
	http  *http.Client
}

// rawAnswer takes an answer as it is, JSON or not.
type rawAnswer []byte

// clientTimeout bounds one request of a command; the longest is a scan of dead letters.
const clientTimeout = 60 * time.Second

func newAPIClient(base, token, hint string) (*apiClient, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("%s: %q is not an http or https URL", hint, base)
	}
	return &apiClient{base: strings.TrimRight(base, "/"), token: token, hint: hint, http: &http.Client{
		Timeout:       clientTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token must not follow
	}}, nil
}

// adminClient finds the admin API: flag, environment, settings, dev's default.
func (a *app) adminClient(f adminFlags) (*apiClient, error) {
	base, token, err := a.server(f.Admin, "HOOKLINE_ADMIN_URL", "admin.addr", f.Token, "", "admin.token")
	if err != nil {
		return nil, err
	}
	return newAPIClient(base, token, "--admin")
}

func (a *app) ingestClient(f ingestFlags) (*apiClient, error) {
	base, key, err := a.server(f.Ingest, "HOOKLINE_INGEST_URL", "ingest.addr", f.APIKey, "HOOKLINE_API_KEY", "ingest.api_keys")
	if err != nil {
		return nil, err
	}
	c, err := newAPIClient(base, key, "--ingest")
	if err != nil || f.Ingest != "" || strings.HasPrefix(base, "http:") {
		return c, err
	}
	if _, ok := a.getenv("HOOKLINE_INGEST_URL"); ok {
		return c, nil // any server, with a certificate that the system trusts
	}
	cert, err := a.ingestCert()
	if err == nil && cert != "" {
		err = c.pin(cert)
	}
	return c, err
}

// ingestCert is the certificate of the server that the settings are for, "" without TLS.
func (a *app) ingestCert() (string, error) {
	l, err := readLayers(a.cli.Config, a.environ, nil)
	if err != nil {
		return "", err
	}
	return l.text("ingest.tls.cert")
}

// pin makes the client take the certificate of a file and no other.
func (c *apiClient) pin(certFile string) error {
	conf, err := pinned(certFile)
	if err != nil {
		return err
	}
	c.http.Transport = &http.Transport{TLSClientConfig: conf}
	return nil
}

// server returns URL and credential. Where a server listens and which keys it takes are
// settings, so a client in the same directory finds the server without being told.
func (a *app) server(urlFlag, urlEnv, addrKey, keyFlag, keyEnv, keyKey string) (base, key string, err error) {
	l, err := readLayers(a.cli.Config, a.environ, nil)
	if err != nil {
		return "", "", err
	}
	fromEnv := func(name string) string { v, _ := a.getenv(name); return v }
	setting := func(key string) (any, bool) {
		for _, s := range settings() {
			if s.key == key {
				v, _, ok := l.value(s, dev)
				return v, ok
			}
		}
		panic("BUG: no setting " + key)
	}
	base = orDefault(urlFlag, fromEnv(urlEnv))
	if base == "" {
		v, _ := setting(addrKey)
		addr, err := asListenAddr(v)
		if err != nil {
			return "", "", fmt.Errorf("settings: %s: %w", addrKey, err)
		}
		base = "http://" + dialAddr(addr)
		if addrKey == "ingest.addr" {
			cert, err := l.text("ingest.tls.cert")
			if err != nil {
				return "", "", err
			}
			if cert != "" {
				base = "https://" + dialAddr(addr)
			}
		}
	}
	if key = keyFlag; key == "" && keyEnv != "" {
		key = fromEnv(keyEnv)
	}
	if key != "" {
		key, err = resolveSecret(key)
		return base, key, err
	}
	v, ok := setting(keyKey)
	if !ok {
		return base, "", nil
	}
	if keyKey != "ingest.api_keys" {
		key, err = asSecret(v)
		return base, key, err
	}
	keys, err := asAPIKeys(v, resolveSecret)
	for _, k := range keys {
		if k.Key != "" {
			return base, k.Key, nil
		}
	}
	return base, "", err
}

// dialAddr turns a listen address into one to connect to.
func dialAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// do sends one request and decodes the answer into out. An answer that is not a success
// comes back as an error that holds its *apiError.
func (c *apiClient) do(ctx context.Context, method, path string, header http.Header, body, out any) error {
	var payload io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		payload = bytes.NewReader(b)
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	for k, vs := range header {
		req.Header[k] = vs
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("User-Agent", "hookline-cli/"+softwareVersion())
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end or given up
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 256<<20))
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.refused(method, path, resp.StatusCode, raw)
	}
	if out == nil || len(raw) == 0 {
		return nil
	}
	if plain, ok := out.(*rawAnswer); ok {
		*plain = raw
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s does not answer like hookline; check %s: %w", c.base, c.hint, err)
	}
	return nil
}

func (c *apiClient) unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s; start hookline dev, or name the server with %s", c.base, c.hint)
	}
	return fmt.Errorf("no answer from %s; check %s: %w", c.base, c.hint, err)
}

func (c *apiClient) refused(method, path string, status int, raw []byte) error {
	e := &apiError{}
	if err := json.Unmarshal(raw, e); err != nil || e.Code == "" {
		return fmt.Errorf("%s %s%s answered %d and is not hookline; check %s", method, c.base, path, status, c.hint)
	}
	e.Status = status
	if status == http.StatusUnauthorized {
		return fmt.Errorf("%s refuses the credential; give the right one (--token, --api-key): %w", c.base, e)
	}
	return e
}
