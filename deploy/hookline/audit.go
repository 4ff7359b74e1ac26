package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hookline/hookline/dispatcher/endpoint"
	"github.com/hookline/hookline/retrytiers/tier"
)

// auditRecord is one change, or one test delivery, by an operator, or a disable by a dispatcher: a JSON record of the
// audit topic, keyed by what was changed. It holds no secret and no header value.
type auditRecord struct {
	At         time.Time     `json:"at"`
	Action     string        `json:"action"` // endpoint.create, .replace, .update, .delete, .enable, .disable, .rotate_secret, .test
	Actor      string        `json:"actor"`  // the credential's name, or "dispatcher"
	Remote     string        `json:"remote"` // address of the connection, or the dispatcher's worker name
	Reason     string        `json:"reason,omitempty"`
	UserAgent  string        `json:"user_agent,omitempty"`
	EndpointID string        `json:"endpoint_id,omitempty"`
	Tenant     string        `json:"tenant,omitempty"`
	Before     *endpointForm `json:"before,omitempty"`
	After      *endpointForm `json:"after,omitempty"`
}

// auditTimeout bounds the wait for the audit record. The change is made by then; see note.
const auditTimeout = 5 * time.Second

// auditor appends to the audit topic.
type auditor struct {
	cl     *kgo.Client
	topic  string
	failed prometheus.Counter
}

func newAuditor(base []kgo.Opt, prefix string, reg prometheus.Registerer) (*auditor, error) {
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, base...),
		kgo.RequiredAcks(kgo.AllISRAcks()),             // a record that a broker loses is no evidence
		kgo.ProducerLinger(0),                          // an operator waits for the answer
		kgo.RecordDeliveryTimeout(4*time.Second),       // below auditTimeout, so that the reason is told
		kgo.RecordPartitioner(kgo.ManualPartitioner()), // one partition
	)...)
	if err != nil {
		return nil, fmt.Errorf("open audit producer: %w", err)
	}
	failed := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "hookline_admin_audit_failures_total", Help: "Audit records that could not be written: a change stands without it, a test delivery is not made.",
	})
	if err := reg.Register(failed); err != nil {
		return nil, fmt.Errorf("register audit metrics: %w", err)
	}
	return &auditor{cl: cl, topic: tier.AuditTopic().Name(prefix), failed: failed}, nil
}

func (a *auditor) close() { a.cl.Close() }

// note writes the record of a change that was made. The change stands when it fails; the
// error is for the log and the metric.
func (a *auditor) note(ctx context.Context, rec *auditRecord) error {
	value, err := json.Marshal(rec)
	if err != nil {
		a.failed.Inc()
		return fmt.Errorf("encode audit record: %w", err)
	}
	// Not the request's context: a client that hangs up must not take the evidence along.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	r := &kgo.Record{Topic: a.topic, Key: []byte(rec.EndpointID), Value: value}
	if err := a.cl.ProduceSync(ctx, r).FirstErr(); err != nil {
		a.failed.Inc()
		return fmt.Errorf("append to %s: %w", a.topic, err)
	}
	return nil
}

// auditChange describes one request's change.
func auditChange(r *http.Request, action string, before, after *endpoint.Endpoint) *auditRecord {
	rec := &auditRecord{
		At: time.Now().UTC().Truncate(time.Millisecond), Action: "endpoint." + action, Actor: "admin token",
		Remote: r.RemoteAddr, UserAgent: cut(r.UserAgent(), 200), Before: auditForm(before), After: auditForm(after),
	}
	for _, e := range []*endpoint.Endpoint{before, after} {
		if e != nil {
			rec.EndpointID, rec.Tenant = e.ID, e.Tenant
		}
	}
	return rec
}

// disabled writes the record of an endpoint that a dispatcher has switched off, since it answered 410.
func (a *auditor) disabled(worker string) func(ctx context.Context, before, after *endpoint.Endpoint) error {
	return func(ctx context.Context, before, after *endpoint.Endpoint) error {
		return a.note(ctx, &auditRecord{
			At: time.Now().UTC().Truncate(time.Millisecond), Action: "endpoint.disable", Actor: roleDispatcher, Remote: worker,
			Reason: string(tier.EndpointGone), EndpointID: after.ID, Tenant: after.Tenant,
			Before: auditForm(before), After: auditForm(after),
		})
	}
}

// auditForm is an endpoint without what may carry a token: header values and the URL's query.
func auditForm(e *endpoint.Endpoint) *endpointForm {
	if e == nil {
		return nil
	}
	form := showEndpoint(e, false)
	for name := range form.Headers {
		form.Headers[name] = redacted
	}
	if u, err := url.Parse(form.URL); err == nil && u.RawQuery != "" {
		u.RawQuery = "redacted"
		form.URL = u.String()
	}
	return form
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
