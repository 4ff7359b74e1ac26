package event

import "time"

// Header names of a record of the events topic: the CloudEvents Kafka binding in
// binary mode (ce_*) and hookline's own (hl_*). CONTRACT: people read these with any
// Kafka tool, so names are only ever added.
const (
	HeaderSpecVersion = "ce_specversion"
	HeaderID          = "ce_id"
	HeaderType        = "ce_type"
	HeaderSource      = "ce_source"
	HeaderSubject     = "ce_subject"
	HeaderTime        = "ce_time"
	HeaderContentType = "content-type"
	HeaderTraceparent = "traceparent"
	HeaderTenant      = "hl_tenant"
	HeaderOrigin      = "hl_source"
	HeaderSchema      = "hl_schema"
	HeaderAcceptedMs  = "hl_accepted_ms"
	HeaderSequence    = "hl_sequence"
	HeaderForwarded   = "hl_forwarded"
)

// OriginKafka is the Origin of what a Kafka producer wrote without naming one.
const OriginKafka = "kafka"

// Event is one accepted publish: the facts that the headers carry and the body as the
// producer sent it. Strings and Body of a decoded Event may alias the Kafka record; they
// are valid as long as the record is, and must not be written to.
type Event struct {
	ID        string // Webhook-Id: stable over attempts and replays, [A-Za-z0-9_-]
	Type      string // dot-separated, at most 128 bytes
	Source    string // CloudEvents source; part of the idempotency key of window A
	MessageID string // ce_subject and the record's key: the ordering key
	Tenant    string
	Origin    string // "" = publish API, else the provider's name, OriginKafka = written to the topic directly
	Schema    string // contract version of the body, "1" when the producer sent none

	OccurredAt  time.Time // producer's time; zero = none given
	AcceptedMs  int64     // Unix milliseconds at which ingest took it
	ContentType string
	Traceparent string
	Sequence    int64 // the producer's own sequence, -1 = none; never Webhook-Sequence
	// Forwarded is what HeaderForwarded says, "" = the record is where its producer put it.
	// It belongs to the record: Headers does not write it.
	Forwarded string

	Body []byte
}

// PublishSource is the ce_source of what a tenant publishes through the API. It is fixed:
// with the tenant and the id it is the key of the idempotency window.
func PublishSource(tenant string) string { return "/hookline/" + tenant }
