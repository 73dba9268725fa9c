package sim

import (
	"context"
	"time"

	"fanfare/internal/feed"
)

// gone is a user that no other part of the world uses.
const gone = "gone"

// removal makes a user open a stream at one API, and removes the user at another API. The stream has to end
// soon.
func (s *liveStorm) removal(here, there *Proc) {
	l := s.w.load
	client := &liveClient{storm: s, user: gone, ended: true, watch: watch{had: map[string]bool{}, since: map[string]bool{}, old: map[string]bool{}}}
	do := func(op *operation, api *Proc, lasts time.Duration) bool {
		op.user = l.users[0]
		s.run(op, api)
		s.pass(lasts, "")
		if op.err != nil {
			l.fail("I2", "%s without a fault: %v", op.name, op.err)
		}
		return op.err == nil
	}
	settled := func(error) {}
	made := do(&operation{name: "profile for streams", settle: settled, do: func(ctx context.Context, d *domain) error {
		_, err := d.PutProfile(ctx, gone, feed.ProfileInput{Name: gone})
		return err
	}}, there, 2*time.Second)
	if !made || !do(s.open(client, here), here, 2*time.Second) {
		return
	}
	left := do(&operation{name: "removal for streams", settle: settled, do: func(ctx context.Context, d *domain) error {
		return d.DeleteProfile(ctx, gone)
	}}, there, 15*time.Second)
	if left && client.open() {
		l.fail("I2", "the stream of %s is open 15 seconds after the removal", gone)
	}
}
