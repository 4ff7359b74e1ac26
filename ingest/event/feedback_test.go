package event

import "testing"

func TestFeedbackIsOurTypeFromOurSource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, source string
		want         bool
	}{
		{DeliveryDead, FeedbackSource, true},
		{EndpointDisabled, FeedbackSource, true},
		{EndpointFailing, FeedbackSource, true},
		{EndpointRecovered, FeedbackSource, true},
		{DeliveryDead, PublishSource("dev"), false},
		{DeliveryDead, PublishSource(""), false},
		{"message.delivered", FeedbackSource, false},
		{"hooklines.delivery", FeedbackSource, false},
		{"hookline", FeedbackSource, false},
	} {
		if got := (&Event{Type: c.kind, Source: c.source}).IsFeedback(); got != c.want {
			t.Errorf("%s from %s: %v", c.kind, c.source, got)
		}
	}
}
