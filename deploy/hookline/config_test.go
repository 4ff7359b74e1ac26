package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// testKey is 32 zero bytes.
const testKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// command runs the program in-process and returns what it printed.
func command(t *testing.T, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errOut, environ: environ}
	code = a.run(args)
	return out.String(), errOut.String(), code
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func decodeFile(t *testing.T, text string, environ []string, flags flagValues, p profile) (*Config, []problem) {
	t.Helper()
	l, err := readLayers(writeFile(t, "hookline.yaml", text), environ, flags)
	if err != nil {
		t.Fatal(err)
	}
	return l.decode(p)
}

func TestLaterSourcesWin(t *testing.T) {
	t.Parallel()
	file := "data_dir: from-file\nadmin: {addr: 127.0.0.1:1, token: t1}\ningest: {addr: 127.0.0.1:2}\n"
	environ := []string{"HOOKLINE_DATA_DIR=from-env", "HOOKLINE_ADMIN_ADDR=127.0.0.1:3"}
	c, problems := decodeFile(t, file, environ, flagValues{"admin.addr": "127.0.0.1:4"}, dev)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if c.DataDir != "from-env" || c.Admin.Addr != "127.0.0.1:4" || c.Ingest.Addr != "127.0.0.1:2" || c.Admin.Token != "t1" {
		t.Errorf("got %+v", c)
	}
}

func TestDevHasDefaultsForEverything(t *testing.T) {
	t.Parallel()
	c, problems := decodeFile(t, "ingest:\n  # all commented out\n", nil, nil, dev)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if c.Topics.Partitions != 12 || c.Ingest.MaxBody != 256<<10 || len(c.Egress.Allow) != 2 || !c.Egress.HTTP {
		t.Errorf("got %+v", c)
	}
	if k := c.Ingest.APIKeys; len(k) != 1 || k[0] != (apiKey{Tenant: "dev", Key: "dev"}) {
		t.Errorf("api keys: %+v", k)
	}
}

func TestRunRefusesWithoutSecretsAndNamesAll(t *testing.T) {
	t.Parallel()
	_, problems := decodeFile(t, "{}", nil, nil, production)
	var keys []string
	for _, p := range problems {
		keys = append(keys, p.Key)
	}
	slices.Sort(keys)
	want := []string{"admin.token", "ingest.api_keys", "kafka.brokers", "secret_key"}
	if !slices.Equal(keys, want) {
		t.Errorf("problems of %v, want %v", keys, want)
	}
}

func TestEveryProblemIsReportedWithItsPath(t *testing.T) {
	t.Parallel()
	file := `
ingest: {adr: x, addr: nowhere, max_body: -1}
topics: {partitions: 0, retention: {events: 1h, nope: 1h, dead: 10}}
egress: {allow: [10.0.0.1/8]}
defaults: {timeout: 99s, bogus: 1, retry: {base: 5}}
kafka: {prefix: noDot, sasl: {mechanism: GSSAPI}}
sources: {a: {}}
secret_key: short
`
	_, problems := decodeFile(t, file, nil, nil, production)
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{
		"ingest.adr: is not a setting; did you mean ingest.addr?", "ingest.addr: ", "ingest.max_body: ", "topics.partitions: ",
		"topics.retention: nope", "topics.retention: dead", "egress.allow: ", "defaults: bogus", "defaults: retry.base", "timeout",
		"kafka.prefix: ", "kafka.sasl.mechanism: ", "sources.a.scheme: ", "sources.a.tenant: ", "secret_key: ", "admin.token: is missing",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in:\n%s", want, all)
		}
	}
}

func TestSectionGivenAsValueIsAProblem(t *testing.T) {
	t.Parallel()
	_, problems := decodeFile(t, "ingest: 5\nadmin: {token: {a: b}}\n", nil, nil, dev)
	if len(problems) != 2 {
		t.Errorf("problems: %v", problems)
	}
}

func TestDevRefusesOtherThanLoopback(t *testing.T) {
	t.Parallel()
	for addr, ok := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:80": true, "127.9.9.9:1": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:8080": false, ":8080": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false,
	} {
		_, problems := decodeFile(t, "{}", []string{"HOOKLINE_ADMIN_ADDR=" + addr}, nil, dev)
		if (len(problems) == 0) != ok {
			t.Errorf("%s: problems %v", addr, problems)
		}
	}
}

func TestSecretReferences(t *testing.T) {
	t.Setenv("HL_TEST_TOKEN", "from-variable")
	path := writeFile(t, "token", "from-file\n")
	for ref, want := range map[string]string{
		"plain": "plain", "file:" + path: "from-file", "env:HL_TEST_TOKEN": "from-variable", "exec:printf a,b": "a,b",
	} {
		c, problems := decodeFile(t, "{}", []string{"HOOKLINE_ADMIN_TOKEN=" + ref}, nil, dev)
		if len(problems) > 0 || c.Admin.Token != want {
			t.Errorf("%s: %v %v", ref, problems, c.Admin.Token)
		}
	}
	for _, ref := range []string{"file:/does/not/exist", "env:HL_NOT_SET", "exec:echo topsecret >&2; exit 3", "exec:true"} {
		_, problems := decodeFile(t, "{}", []string{"HOOKLINE_ADMIN_TOKEN=" + ref}, nil, dev)
		if len(problems) != 1 || strings.Contains(problems[0].String(), "topsecret") {
			t.Errorf("%s: problems %v", ref, problems)
		}
	}
}

func TestAPIKeyForms(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("Ab", 32)
	path := writeFile(t, "keys", "# note\na:k1, b:k2\n\nc:sha256="+sum+"\n")
	want := []apiKey{{Tenant: "a", Key: "k1"}, {Tenant: "b", Key: "k2"}, {Tenant: "c", SHA256: strings.ToLower(sum)}}
	for _, v := range []any{
		"a:k1,b:k2,c:sha256=" + sum, []any{"a:k1", "b:k2", "c:sha256=" + sum}, "@" + path, "file:" + path, "exec:cat " + path,
		[]any{"a:k1", "b:k2", "c:exec:echo sha256=" + sum},
	} {
		got, err := asAPIKeys(v, resolveSecret)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v %v", v, got, err)
		}
	}
	for _, bad := range []string{"nokey", "a:", ":k", "a b:k", "a:k\x01", "a:sha256=12", "@/nope", "a:k,b:k"} {
		if _, err := asAPIKeys(bad, resolveSecret); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestEmptyVariableCountsOnlyWhereItMeansSomething(t *testing.T) {
	t.Parallel()
	c, problems := decodeFile(t, "egress: {allow: [10.0.0.0/8]}\nkafka: {brokers: [a]}\n",
		[]string{"HOOKLINE_EGRESS_ALLOW=", "HOOKLINE_KAFKA_BROKERS=", "HOOKLINE_ADMIN_TOKEN="}, nil, dev)
	if len(problems) > 0 || len(c.Egress.Allow) != 0 || len(c.Kafka.Brokers) != 0 || c.Admin.Token != "dev" {
		t.Errorf("%v %+v", problems, c)
	}
}

func TestConfigPrintTellsNoSecret(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "h.yaml", `
secret_key: [`+testKey+`]
ingest: {api_keys: ["acme:hunter2", "b:exec:vault read hunter2"]}
admin: {token: hunter2}
kafka: {sasl: {mechanism: plain, user: u, password: hunter2}}
defaults: {headers: {X-Token: hunter2}}
sources: {s: {secrets: [hunter2]}}
clickhouse: {dsn: "clickhouse://u:hunter2@host/db"}
`)
	for _, args := range [][]string{{"config", "print"}, {"config", "print", "--json"}, {"config", "check"}, {"config", "check", "--json"}} {
		stdout, stderr, _ := command(t, nil, append(args, "--config", file)...)
		if strings.Contains(stdout+stderr, "hunter2") || strings.Contains(stdout+stderr, testKey) {
			t.Errorf("%v prints a secret:\n%s%s", args, stdout, stderr)
		}
	}
	stdout, _, _ := command(t, nil, "config", "print", "--config", file)
	if !strings.Contains(stdout, "acme:(redacted)") {
		t.Errorf("tenant is not shown:\n%s", stdout)
	}
}

func TestConfigPrintIsYAML(t *testing.T) {
	t.Parallel()
	stdout, _, code := command(t, nil, "config", "print")
	m, err := yamlParser{}.Unmarshal([]byte(stdout))
	if err != nil || code != exitOK {
		t.Fatalf("%v %d\n%s", err, code, stdout)
	}
	if kafka, ok := m["kafka"].(map[string]any); !ok || kafka["prefix"] != "hookline." {
		t.Errorf("got %v", m)
	}
}

func TestConfigCheckExitCodes(t *testing.T) {
	t.Parallel()
	good := writeFile(t, "good.yaml", "data_dir: x\n")
	if _, stderr, code := command(t, nil, "config", "check", "--config", good); code != exitOK {
		t.Errorf("good file: %d %s", code, stderr)
	}
	bad := writeFile(t, "bad.yaml", "nope: 1\nalso: 2\n")
	stdout, _, code := command(t, nil, "config", "check", "--json", "--config", bad)
	var out struct{ Problems []problem }
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != exitFailed || len(out.Problems) != 2 {
		t.Errorf("bad file: %v %d %s", err, code, stdout)
	}
	if _, stderr, code := command(t, nil, "config", "check", "--config", "/does/not/exist"); code != exitFailed || strings.Count(stderr, "\n") != 1 {
		t.Errorf("missing file: %d %q", code, stderr)
	}
	if _, stderr, code := command(t, nil, "config", "chek"); code != exitUsage || strings.Count(stderr, "\n") != 1 {
		t.Errorf("misspelt command: %d %q", code, stderr)
	}
	if _, _, code := command(t, []string{"HOOKLINE_KAFKA_BROKERS=x:1"}, "config", "check"); code != exitFailed {
		t.Errorf("brokers without secrets pass as a deployment: %d", code)
	}
}

func TestValueForms(t *testing.T) {
	t.Parallel()
	if d, err := asDuration("30d"); err != nil || d != 720*time.Hour {
		t.Errorf("30d: %v %v", d, err)
	}
	if n, err := asSize("1MiB", 0, 1<<40); err != nil || n != 1<<20 {
		t.Errorf("1MiB: %v %v", n, err)
	}
	if _, err := asSize("99999999999GiB", 0, 1<<62); err == nil {
		t.Error("overflow is accepted")
	}
	if got, err := asSeeds("a, b:1 ,[::1]"); err != nil || !slices.Equal(got, []string{"a:9092", "b:1", "[::1]:9092"}) {
		t.Errorf("seeds: %v %v", got, err)
	}
	if _, err := asBool("maybe"); err == nil {
		t.Error("maybe is a bool")
	}
}

// FuzzSettings checks that no text of any setting panics or shows itself in a problem when
// the setting is secret.
func FuzzSettings(f *testing.F) {
	f.Add("ingest.api_keys", "a:b,c:sha256=00")
	f.Add("secret_key", "x")
	f.Add("topics.max_message_bytes", "12KiB")
	f.Add("egress.allow", "10.0.0.0/8,::1")
	f.Fuzz(func(t *testing.T, key, value string) {
		if strings.Contains(value, "file:") || strings.Contains(value, "exec:") || strings.Contains(value, "@") {
			return // would read the machine
		}
		for _, s := range settings() {
			if s.key != key {
				continue
			}
			c := &Config{}
			c.Retrytiers.Ladder = defaultLadder()
			if err := s.set(c, value); err != nil && s.secret && len(value) > 8 && strings.Contains(err.Error(), value) {
				t.Errorf("%s repeats its value: %v", key, err)
			}
		}
	})
}
