package event

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestPartitionEqualsTheKafkaClients(t *testing.T) {
	client := kgo.StickyKeyPartitioner(nil).ForTopic("")
	for n := 1; n <= 200; n++ {
		key := strings.Repeat("aZ3-_", 40)[:n]
		for _, partitions := range []int32{1, 12, 48} {
			want := client.Partition(&kgo.Record{Key: []byte(key)}, int(partitions))
			if got := Partition(key, partitions); int(got) != want {
				t.Fatalf("Partition(%q, %d) = %d, want %d", key, partitions, got, want)
			}
		}
	}
}

// Vectors of the Java client's own test (UtilsTest.testMurmur2).
func TestMurmur2OfJava(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2(key)); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	if got := EventsTopic(12).Name(DefaultPrefix); got != "hookline.events" {
		t.Errorf("events topic is called %q", got)
	}
	if got := GroupName(DefaultPrefix, "retrytiers"); got != "hookline.retrytiers" {
		t.Errorf("group is called %q", got)
	}
}
