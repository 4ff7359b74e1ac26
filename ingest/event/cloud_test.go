package event

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// with is a minimal CloudEvent with other members.
func with(members ...string) string {
	all := map[string]string{"specversion": `"1.0"`, "id": `"minimal"`, "source": `"https://cloudevents.io"`, "type": `"io.cloudevents.test"`, "subject": `"tests"`}
	order := []string{"specversion", "id", "source", "type", "subject"}
	for i := 0; i < len(members); i += 2 {
		if _, ok := all[members[i]]; !ok {
			order = append(order, members[i])
		}
		all[members[i]] = members[i+1]
	}
	var out []string
	for _, name := range order {
		if all[name] != "" {
			out = append(out, `"`+name+`":`+all[name])
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

// The events of the CloudEvents conformance suite for the JSON format, each with the subject that
// hookline needs.
func TestCloudEventConformance(t *testing.T) {
	at := time.Date(2018, 4, 5, 17, 31, 0, 0, time.UTC)
	for body, want := range map[string]time.Time{
		with(): {},
		with("datacontenttype", "null", "dataschema", "null", "time", "null"):                                                          {},
		with("datacontenttype", `"text/plain"`, "dataschema", `"https://cloudevents.io/dataschema"`, "time", `"2018-04-05T17:31:00Z"`): at,
		with("time", `"2018-04-05T17:31:00.000000000Z"`):                                                                               at,
		with("time", `"2018-04-05T18:31:00+01:00"`):                                                                                    at,
		with("time", `"2018-04-05T16:31:00-01:00"`):                                                                                    at,
		with("source", `"#fragment"`):                                                                                                  {},
		with("datacontenttype", `"text/plain"`, "data", `"Simple text"`):                                                               {},
		with("extinteger", "10", "extboolean", "true", "exturi", `"https://cloudevents.io"`, "exturiref", `"//authority/path"`, "extbinary", `"TWE="`): {},
	} {
		c, err := ParseCloudEvent([]byte(body))
		if err != nil || c.ID != "minimal" || c.Type != "io.cloudevents.test" || c.Subject != "tests" || !c.Time.Equal(want) {
			t.Errorf("%s: %+v, %v", body, c, err)
		}
	}
	for body, want := range map[string]FieldError{
		with("specversion", ""):                                       {Code: CodeMissingField, Field: "specversion"},
		with("id", ""):                                                {Code: CodeMissingField, Field: "id"},
		with("type", ""):                                              {Code: CodeMissingField, Field: "type"},
		with("source", ""):                                            {Code: CodeMissingField, Field: "source"},
		with("subject", ""):                                           {Code: CodeMissingField, Field: "subject"},
		with("subject", "null"):                                       {Code: CodeMissingField, Field: "subject"},
		with("time", `"lunchtime"`):                                   {Code: CodeInvalidField, Field: "time"},
		with("time", `"2018-04-05T18:31Z"`):                           {Code: CodeInvalidField, Field: "time"},
		with("time", `"2018-04-05T18:31:00X"`):                        {Code: CodeInvalidField, Field: "time"},
		with("time", `"2018-04-05T18:31:00+25:00"`):                   {Code: CodeInvalidField, Field: "time"},
		with("time", `"2018-04-05T18:31:00+xx:00"`):                   {Code: CodeInvalidField, Field: "time"},
		with("time", `"2018-04-05T18:31:00+05"`):                      {Code: CodeInvalidField, Field: "time"},
		with("id", `""`):                                              {Code: CodeInvalidField, Field: "id"},
		with("type", `""`):                                            {Code: CodeInvalidField, Field: "type"},
		with("source", `""`):                                          {Code: CodeInvalidField, Field: "source"},
		with("specversion", `""`):                                     {Code: CodeInvalidField, Field: "specversion"},
		with("specversion", `"0.9"`):                                  {Code: CodeInvalidField, Field: "specversion"},
		with("datacontenttype", `"xyz"`):                              {Code: CodeInvalidField, Field: "datacontenttype"},
		with("datacontenttype", `""`):                                 {Code: CodeInvalidField, Field: "datacontenttype"},
		with("subject", `""`):                                         {Code: CodeInvalidField, Field: "subject"},
		with("id", "25"):                                              {Code: CodeInvalidField, Field: "id"},
		with("id", `{"xyz":"abc"}`):                                   {Code: CodeInvalidField, Field: "id"},
		with("data", `"text"`, "data_base64", `"eyAieHl6IiB9"`):       {Code: CodeInvalidField, Field: "data_base64"},
		with("type", `"com/example"`):                                 {Code: CodeInvalidField, Field: "type"},
		with("subject", `"a b"`):                                      {Code: CodeInvalidField, Field: "subject"},
		with("id", `"a\u0007"`):                                       {Code: CodeInvalidField, Field: "id"},
		with("source", `"a b"`):                                       {Code: CodeInvalidField, Field: "source"},
		with("Type", `"other"`):                                       {Code: CodeInvalidField, Field: "type"},
		with("\\u0069d", `"other"`):                                   {Code: CodeInvalidField, Field: "id"},
		with("schemaversion", `"a b"`):                                {Code: CodeInvalidField, Field: "schemaversion"},
		`{"SpecVersion":"1.0","id":"1"}`:                              {Code: CodeMissingField, Field: "specversion"},
		"[" + with() + "]":                                            {Code: CodeInvalidJSON},
		with("data", strings.Repeat("[", 64)+strings.Repeat("]", 64)): {Code: CodeInvalidJSON},
	} {
		_, err := ParseCloudEvent([]byte(body))
		var ferr *FieldError
		if !errors.As(err, &ferr) || ferr.Code != want.Code || ferr.Field != want.Field {
			t.Errorf("%s: %#v, want %+v", body, err, want)
		}
	}
}

func TestCloudExtensions(t *testing.T) {
	for raw, want := range map[string]int64{
		`7`: 7, `"7"`: 7, `"00042"`: 42, `"0"`: 0, `"000"`: 0, `9007199254740991`: 9007199254740991, `"9007199254740992"`: -1,
		`-1`: -1, `1.5`: -1, `"a7"`: -1, `""`: -1, `null`: -1,
	} {
		c, err := ParseCloudEvent([]byte(with("sequence", raw)))
		if err != nil || c.Sequence != want {
			t.Errorf("sequence %s is %d, %v; want %d", raw, c.Sequence, err, want)
		}
	}
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c, err := ParseCloudEvent([]byte(with("traceparent", `"`+trace+`"`, "schemaversion", "3")))
	if err != nil || c.Traceparent != trace || c.Schema != "3" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = ParseCloudEvent([]byte(with("traceparent", `"nonsense"`))); err != nil || c.Traceparent != "" {
		t.Errorf("%+v, %v", c, err)
	}
}

// The values of section 3.1.3.2 of the HTTP binding, and what older producers send.
func TestCloudHeaderText(t *testing.T) {
	for raw, want := range map[string]string{
		"Euro%20%E2%82%AC%20%F0%9F%98%80": "Euro \u20ac \U0001f600",
		"plain":                           "plain",
		"%70lain":                         "plain",
		`"a \"quoted\" b%20c"`:            `a "quoted" b c`,
		`"back\\slash"`:                   `back\slash`,
		"with blank":                      "with blank",
		"%2525":                           "%25", // one round only
		`a"b`:                             `a"b`,
		"":                                "",
	} {
		if got, ok := headerText([]byte(raw)); !ok || got != want {
			t.Errorf("%s is %q, %v; want %q", raw, got, ok, want)
		}
	}
	for _, raw := range []string{"%C0%A0", "%", "%4", "%zz", "\xff", `"a"b"`, `"a\"`, "%ED%A0%80"} {
		if got, ok := headerText([]byte(raw)); ok {
			t.Errorf("%s is taken as %q", raw, got)
		}
	}
}
