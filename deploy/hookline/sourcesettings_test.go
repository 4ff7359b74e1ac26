package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSourcesAreReadWithTheirSecrets(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "secret", "one\ntwo\n")
	c, problems := decodeFile(t, `
sources:
  gh:
    tenant: acme
    scheme: github
    secrets: ["file:`+file+`", "three", "exec:echo four"]
  x:
    tenant: dev
    scheme: hmac
    secrets: [s]
    verify_token: "file:`+file+`"
    event_type: json:type
    message_id: json:id
    derive_id: [json:type, json:id]
    hmac: {header: X-Sig, signed: "{timestamp}{body}", timestamp: header:X-Time}
`, nil, nil, dev)
	if len(problems) > 0 || len(c.Sources) != 2 {
		t.Fatal(problems)
	}
	if got := c.Sources[0].secrets.current(); !slices.Equal(got, []string{"one", "two", "three", "four"}) {
		t.Errorf("secrets %q", got)
	}
	if got := c.ingestSources(); got[0].VerifyToken != nil || !slices.Equal(got[1].VerifyToken(), []string{"one", "two"}) {
		t.Errorf("tokens of %+v", got)
	}
	if len(c.Warnings) != 1 || c.Warnings[0].Key != "sources.x.derive_id" || !strings.Contains(c.Warnings[0].Text, "time") {
		t.Errorf("warnings %v", c.Warnings)
	}
}

func TestFaultsOfSourcesHaveTheirPaths(t *testing.T) {
	t.Parallel()
	_, problems := decodeFile(t, `
sources:
  a: {tenant: dev, scheme: githup, secrets: [s]}
  b: {tenant: dev, scheme: standard-webhooks, secrets: [whsec_AAAA, "hunter2!", "env:HOOKLINE_NOT_SET_ANYWHERE"], tolerance: 5}
  c: {tenant: dev, scheme: github, secrets: [s], tollerance: 5m}
`, nil, nil, dev)
	var got []string
	for _, p := range problems {
		got = append(got, p.Key)
		if strings.Contains(p.Text, "hunter2") {
			t.Errorf("a secret is told: %s", p)
		}
	}
	slices.Sort(got)
	if want := []string{"sources.a.scheme", "sources.b.secrets[1]", "sources.b.tolerance", "sources.c.tollerance"}; !slices.Equal(got, want) {
		t.Errorf("problems of %q, want %q", got, want)
	}
}

func TestConfigCheckWarnsAndPrintShowsPlaces(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "h.yaml", `
sources:
  x: {tenant: dev, scheme: stripe, secrets: ["hunter2", "env:PATH"], verify_token: hunter2, derive_id: ["json:type"]}
`)
	stdout, stderr, code := command(t, nil, "config", "check", "--config", file)
	if code != exitOK || !strings.Contains(stderr, "warning: sources.x.derive_id: names no time") {
		t.Errorf("%d\n%s%s", code, stdout, stderr)
	}
	stdout, _, _ = command(t, nil, "config", "check", "--json", "--config", file)
	var out struct {
		OK       bool
		Warnings []problem
	}
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || !out.OK || len(out.Warnings) != 1 {
		t.Errorf("%v %s", err, stdout)
	}
	stdout, _, _ = command(t, nil, "config", "print", "--config", file)
	if !strings.Contains(stdout, "env:PATH") || !strings.Contains(stdout, "json:type") || strings.Contains(stdout, "hunter2") {
		t.Errorf("printed:\n%s", stdout)
	}
}

// webhookSender posts GitHub's webhooks as GitHub signs them.
type webhookSender struct {
	t      *testing.T
	url    string
	secret atomic.Pointer[string]
}

func (s *webhookSender) send(delivery, body string) int {
	mac := hmac.New(sha256.New, []byte(*s.secret.Load()))
	mac.Write([]byte(body))
	req, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0
	}
	for name, v := range map[string]string{"Content-Type": "application/json; charset=utf-8", "X-GitHub-Event": "pull_request", "X-GitHub-Delivery": delivery,
		"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))} {
		req.Header.Set(name, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	defer resp.Body.Close()               //nolint:errcheck // read to its end
	_, _ = io.Copy(io.Discard, resp.Body) // only the status is wanted
	return resp.StatusCode
}

// A webhook of a provider arrives signed by us at the endpoints of the tenant, as it was sent.
// Its secret changes in its file under load, and no request is told 401.
func TestE2ESources(t *testing.T) {
	i := install(t)
	shop := startCustomer(t)
	secretFile := filepath.Join(i.dir, "gh-secret")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(i.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("gh-secret", "first")
	write("hookline.yaml", fmt.Sprintf("sources:\n  gh: {tenant: dev, scheme: github, secrets: [\"file:%s\"], success: {status: 204}}\n", secretFile))
	d := i.startDev()
	secrets := i.applySourceEndpoint(shop)
	s := &webhookSender{t: t, url: d.ingest + "/v1/sources/gh"}
	sign := func(secret string) { s.secret.Store(&secret) }

	sign("first")
	const body = " {\"action\":\"opened\", \"repository\":{\"id\":42}, \"n\":9007199254740993}\n"
	for range 3 { // captured and sent again
		if status := s.send("d-0", body); status != http.StatusNoContent {
			t.Fatalf("answered %d", status)
		}
	}
	poll(t, func() bool { return shop.count("/healthy") >= 1 })
	h := shop.hooks[0]
	h.verify(t, secrets["prs"], secrets["other"])
	if string(h.body) != body || h.header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("delivered %q %v", h.body, h.header)
	}

	var sent atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range 2 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if status := s.send(fmt.Sprintf("d-%d-%d", w, n), fmt.Sprintf(`{"action":"closed","repository":{"id":%d},"w":%d}`, n, w)); status != http.StatusNoContent {
					t.Errorf("answered %d under rotation", status)
					return
				}
				sent.Add(1)
			}
		})
	}
	probe := &webhookSender{t: t, url: s.url}
	valid := func(secret string) bool {
		probe.secret.Store(&secret)
		return probe.send("probe", `{"action":"probe","repository":{"id":1}}`) == http.StatusNoContent
	}
	write("gh-secret", "first\nsecond\n")
	poll(t, func() bool { return valid("second") })
	sign("second")
	from := sent.Load()
	poll(t, func() bool { return sent.Load() >= from+8 || t.Failed() })
	write("gh-secret", "second\n")
	poll(t, func() bool { return !valid("first") })
	close(stop)
	wg.Wait()
	owed := int(sent.Load()) + 2 // the first one and the probe
	poll(t, func() bool { return shop.count("/healthy") >= owed })
	if code, _ := d.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if got := shop.count(""); got != owed {
		t.Errorf("%d deliveries, want %d", got, owed)
	}
}

// applySourceEndpoint makes the endpoint of the sources.
func (i *installation) applySourceEndpoint(shop *customer) map[string]string {
	i.t.Helper()
	file := fmt.Sprintf("endpoints:\n  - {id: prs, url: %q, events: [pull_request.*]}\n", shop.URL+"/healthy")
	var out struct{ Steps []step }
	if err := json.Unmarshal([]byte(i.must(file, "endpoints", "apply", "-f", "-", "--yes", "--json")), &out); err != nil || len(out.Steps) != 1 {
		i.t.Fatalf("%v %+v", err, out)
	}
	return map[string]string{"prs": out.Steps[0].Secret, "other": newSecret("v1")}
}
