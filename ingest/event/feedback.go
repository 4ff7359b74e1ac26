package event

import "strings"

// Types of hookline's own events about deliveries and endpoints (DESIGN section 6). Only a pattern
// that names them reaches them.
const (
	DeliveryDead      = "hookline.delivery.dead"
	EndpointDisabled  = "hookline.endpoint.disabled"
	EndpointFailing   = "hookline.endpoint.failing"
	EndpointRecovered = "hookline.endpoint.recovered"
)

// FeedbackSource is the ce_source of feedback events, of every tenant. No PublishSource is equal to it.
const FeedbackSource = "/hookline"

// OriginFeedback is the Origin of feedback events.
const OriginFeedback = "hookline"

// IsFeedback reports whether e is one of hookline's own events: nothing is told about its deliveries,
// or telling would not end.
func (e *Event) IsFeedback() bool {
	return e.Source == FeedbackSource && strings.HasPrefix(e.Type, "hookline.")
}
