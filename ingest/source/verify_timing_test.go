package source

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// BenchmarkVerify is a check of a signature over 512 bytes.
func BenchmarkVerify(b *testing.B) {
	now := time.Unix(1_700_000_000, 0)
	body := `{"id":"evt_1","pad":"` + strings.Repeat("x", 489) + `"}`
	for name, sg := range signers(b) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			secret := secretOf(rand.New(rand.NewPCG(1, 1)), name)
			s := makeSource(b, sg.settings+"\nsecrets: ["+secret+"]")
			r := post(body, sg.sign(secret, body, now.Unix())...)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Verify(r, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
