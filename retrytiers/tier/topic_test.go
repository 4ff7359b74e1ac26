package tier_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hookline/hookline/deploy/local/brokertest"
	"github.com/hookline/hookline/retrytiers/tier"
)

// TestBrokerTakesTheTopics: a setting that a broker does not know is refused at creation.
func TestBrokerTakesTheTopics(t *testing.T) {
	b := brokertest.Start(t)
	topics := tier.Topics(tier.DefaultLadder(), 12)
	b.CreateTopics(t, topics...)
	listed, err := kadm.NewClient(b.Client(t)).ListTopics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		if got := len(listed[topic.Name(b.Prefix)].Partitions); got != int(topic.Partitions) {
			t.Errorf("%s has %d partitions, want %d", topic.Suffix, got, topic.Partitions)
		}
	}
}
