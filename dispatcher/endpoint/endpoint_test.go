package endpoint

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// contractExample is the JSON of CONTRACT section 4.
const contractExample = `{"id":"acme-dlr","tenant":"dev","url":"https://app.example/webhooks/dlr","events":["message.*"],"ordering":"best_effort",
 "timeout":"5s","max_in_flight":64,"rate_per_second":0,"headers":{"X-Env":"prod"},"signature":"v1","secret":"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
 "retry":{"max_attempts":16,"max_age":"72h","base":"2s","factor":2,"cap":"1h","unclear_attempts":5,"permanent":[410],"transient":[]},
 "when_open":"park","on_dead":"continue","enabled":true}`

func mustParse(t *testing.T, text string) Endpoint {
	t.Helper()
	e, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestContractExampleIsTheDefaults(t *testing.T) {
	full := mustParse(t, contractExample)
	if err := full.Check(URLPolicy{}); err != nil {
		t.Fatal(err)
	}
	short := mustParse(t, `{"id":"acme-dlr","tenant":"dev","url":"https://app.example/webhooks/dlr","events":["message.*"],
		"headers":{"X-Env":"prod"},"secret":"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"}`)
	if !reflect.DeepEqual(full, short) {
		t.Errorf("defaults differ from the contract:\n%+v\n%+v", full, short)
	}
	again, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(again, &a), json.Unmarshal([]byte(contractExample), &b)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("JSON form changed:\n%s", again)
	}
}

func TestParseRefusesUnknownNamesAndTrailingData(t *testing.T) {
	for _, text := range []string{
		`{"id":"a","uri":"https://x.example"}`, `{"retry":{"attempts":3}}`, `{"id":"a"} {}`, `null`, ``, `[]`,
		`{"timeout":5}`, `{"timeout":"5"}`, `{"headers":[1]}`, `{"headers":{"A":1}}`,
	} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("Parse(%s) accepted", text)
		}
	}
}

func TestMergeChangesOnlyWhatIsNamed(t *testing.T) {
	base := mustParse(t, contractExample)
	before := base.Clone()
	e, err := Merge(base, []byte(`{"headers":{"X-Env":null,"X-B":"2"},"retry":{"max_attempts":3},"enabled":false,"events":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(base, before) {
		t.Error("Merge wrote into its base")
	}
	if e.Retry.MaxAttempts != 3 || e.Retry.Base != before.Retry.Base || e.Enabled || e.URL != before.URL {
		t.Errorf("merged = %+v", e)
	}
	if !reflect.DeepEqual(e.Headers, map[string]string{"X-B": "2"}) {
		t.Errorf("headers = %v", e.Headers)
	}
	if !reflect.DeepEqual(e.Events, []string{"**"}) {
		t.Errorf("events = %v, want all", e.Events)
	}
}

func TestValidateTellsEveryFault(t *testing.T) {
	e := mustParse(t, `{"id":"a.b","tenant":"","url":"ftp://x","events":[],"ordering":"x","timeout":"16s","max_in_flight":0,
		"rate_per_second":-1,"signature":"v2","when_open":"x","on_dead":"x",
		"headers":{"Webhook-Id":"1"},
		"retry":{"max_attempts":0,"max_age":"0s","base":"2h","factor":0.5,"cap":"1h","unclear_attempts":0,"permanent":[200],"transient":[99]}}`)
	err := e.Check(URLPolicy{})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("Check = %v", err)
	}
	fields := map[string]bool{}
	urls := 0
	for _, one := range joined.Unwrap() {
		var field *FieldError
		var refused *RefusedURL
		switch {
		case errors.As(one, &field):
			fields[field.Field] = true
		case errors.As(one, &refused):
			urls++
		default:
			t.Errorf("untyped fault %v", one)
		}
	}
	for _, want := range []string{"id", "tenant", "events", "ordering", "timeout", "max_in_flight", "rate_per_second", "signature",
		"when_open", "on_dead", `headers."Webhook-Id"`, "retry.max_attempts", "retry.max_age", "retry.base", "retry.factor",
		"retry.unclear_attempts", "retry.permanent", "retry.transient"} {
		if !fields[want] {
			t.Errorf("no fault for %s in %v", want, fields)
		}
	}
	if urls != 1 {
		t.Errorf("%d URL faults, want 1", urls)
	}
}

func TestHeadersThatBelongToTheDeliveryAreRefused(t *testing.T) {
	big := strings.Repeat("x", MaxHeaderBytes)
	bad := []map[string]string{
		{"Host": "x"}, {"CONTENT-LENGTH": "1"}, {"transfer-encoding": "chunked"}, {"Idempotency-Key": "k"}, {"X-Idempotency-Key": "k"},
		{"webhook-anything": "1"}, {"User-Agent": "x"}, {"Content-Type": "x"}, {"Expect": "100-continue"}, {"Traceparent": "x"},
		{"A B": "1"}, {"": "1"}, {"A": "x\r\nB: y"}, {"A": "x\x00"}, {"A": "caf\u00e9"}, {"A": big}, {"A": "1", "a": "2"}, {":path": "/"},
	}
	for _, headers := range bad {
		e := mustParse(t, contractExample)
		e.Headers = headers
		err := e.Validate()
		if err == nil {
			t.Errorf("headers %.60v accepted", headers)
		}
	}
	many := map[string]string{}
	for i := range MaxHeaders + 1 {
		many["X-"+strings.Repeat("a", i+1)] = "1"
	}
	e := mustParse(t, contractExample)
	if e.Headers = many; e.Validate() == nil {
		t.Error("21 headers accepted")
	}
	e.Headers = map[string]string{"Authorization": "Bearer s3cret", "X-Env": "a\tb", "Accept": "*/*"}
	if err := e.Validate(); err != nil {
		t.Errorf("good headers refused: %v", err)
	}
}

func TestDurationText(t *testing.T) {
	for text, want := range map[string]string{
		"72h": "72h", "3600s": "1h", "90s": "1m30s", "5s": "5s", "2m": "2m", "0s": "0s", "1500ms": "1.5s", "-2h": "-2h",
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if d.String() != want {
			t.Errorf("%s reads back as %s, want %s", text, d, want)
		}
	}
}

func TestRotateKeepsAtMostThreeKeysInGrace(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	e := Endpoint{Keys: []Key{{Secret: "whsec_first_secret", CreatedAt: now}}}
	e.Rotate("whsec_b", time.Hour, now)
	if len(e.Keys) != 2 || e.Keys[0].Secret != "whsec_b" || !e.Keys[0].NotAfter.IsZero() {
		t.Fatalf("keys = %v", e.Keys)
	}
	if k := e.Keys[1]; !k.Active(now.Add(time.Hour-1)) || k.Active(now.Add(time.Hour)) {
		t.Errorf("grace of the old key ends at %v", k.NotAfter)
	}
	e.Rotate("whsec_c", time.Hour, now.Add(time.Minute))
	e.Rotate("whsec_d", time.Hour, now.Add(2*time.Minute))
	if len(e.Keys) != MaxKeys || e.Keys[0].Secret != "whsec_d" || e.Keys[2].Secret != "whsec_b" {
		t.Errorf("keys = %d, want the newest three", len(e.Keys))
	}
	e.Rotate("whsec_e", 0, now.Add(2*time.Hour))
	if len(e.Keys) != 1 || e.Keys[0].Secret != "whsec_e" {
		t.Errorf("keys = %d: what has no grace left must go", len(e.Keys))
	}
}
