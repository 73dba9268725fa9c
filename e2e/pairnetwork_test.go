//go:build slow

package e2e

import (
	"testing"
	"time"

	spoil "github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/stretchr/testify/assert"
)

// flips turns one bit over in each piece of bytes.
type flips struct{}

// Pipe implements spoil.Toxic.
func (*flips) Pipe(stub *spoil.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			if len(c.Data) > 0 {
				c.Data[len(c.Data)/2] ^= 1
			}
			stub.Output <- c
		}
	}
}

// TestAPairOutlivesItsNetwork spoils the network between the machines of a pair in each way, and mends it. The primary answers alone, no answered
// write is lost, and operators see the reason.
func TestAPairOutlivesItsNetwork(t *testing.T) {
	t.Parallel()
	spoil.Register("flips", &flips{})
	one, two, c := cabled(t)
	p := one.start(t)
	s := two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	l := callBoth(t, one, two)
	for _, f := range []struct {
		name, kind, attributes string
		directions             []string
		silent                 bool
	}{
		{"both ways are cut", "timeout", `"timeout": 0`, []string{"upstream", "downstream"}, true},
		{"no ack arrives", "timeout", `"timeout": 0`, []string{"upstream"}, true},
		{"no byte of the stream arrives", "timeout", `"timeout": 0`, []string{"downstream"}, true},
		{"latency", "latency", `"latency": 150, "jitter": 100`, []string{"upstream", "downstream"}, false},
		{"1 kB/s", "bandwidth", `"rate": 1`, []string{"downstream"}, true},
		{"bytes are damaged on the way", "flips", "", []string{"upstream", "downstream"}, true},
		{"slow close", "slow_close", `"delay": 700`, []string{"upstream", "downstream"}, false},
	} {
		began := time.Now()
		c.spoil(t, f.kind, f.attributes, f.directions...)
		if f.silent {
			one.sees(t, "/readyz", onlyCopy)
		}
		l.more(one)
		c.mend()
		one.paired(t, "primary")
		two.paired(t, "standby")
		one.answers(t) // not the state during the fault, which /readyz keeps for a moment
		l.more(one)
		t.Logf("%s: mended after %v", f.name, time.Since(began))
	}
	assert.Zero(t, l.count(two), "a standby answers nothing")
	l.end()
	l.kept(one)
	p.stop(t)
	s.stop(t)
}
