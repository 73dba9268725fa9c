package replay

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"fanfare/client"
	"fanfare/internal/backoff"
)

// An away reader posts and likes as all other readers do, so a seed always gives the same
// load. Nobody reads the home of an away reader before the end. The first read of this home
// must be complete, although no post was delivered to it. A second read must be complete
// after the service has rebuilt the home.

// returning is the maximum number of homes of away readers that are read at the same time.
// Each page of such a home reads the post lists of all followees, while the return raises
// the edges of the reader.
const returning = 4

// awayUsers returns which users are away. It draws a share of all users.
func awayUsers(users int, share float64, seed uint64) []bool {
	away := make([]bool, users)
	random := rand.New(rand.NewPCG(seed, 1))
	for _, user := range random.Perm(users)[:int(math.Round(share*float64(users)))] {
		away[user] = true
	}
	return away
}

// leave makes the away users away. Call leave after all follows were made.
func (p *player) leave(ctx context.Context) error {
	var users []int
	for user, away := range p.load.away {
		if away {
			users = append(users, user)
		}
	}
	if len(users) == 0 {
		return nil
	}
	err := p.each(ctx, "readers that leave", len(users), func(ctx context.Context, i int) error {
		return p.call(entry{Call: callAway, User: p.name(users[i])}, func(c *client.Client) (string, error) { return "", c.BeAway(ctx) })
	})
	if gone(err) {
		return fmt.Errorf("the target lets no reader be away (see --away): %w", err)
	}
	return err
}

// delivery is the progress of a post's delivery. An unknown number is -1.
type delivery struct {
	state                       client.DeliveryState
	planned, delivered, skipped int64
}

// checkDelivery compares the delivery of a post with the truth. Away followers must be
// skipped. Posts of authors with more followers than pushLimit may be pulled. The first
// posts of such an author are delivered until the service has marked all homes.
func (t *truth) checkDelivery(post string, d delivery, pushLimit int) finding {
	author := t.authors[post]
	if d.state == client.DeliveryPulled && pushLimit > 0 && t.followers[author] > pushLimit {
		return finding{pulled: 1}
	}
	homes, away := int64(1+t.followers[author]), int64(t.awayFollowers[author])
	if want := (delivery{client.DeliveryComplete, homes, homes - away, away}); d != want {
		return finding{wrong: 1, example: fmt.Sprintf("the delivery of post %s is %+v, want %+v", post, d, want)}
	}
	return finding{}
}

// hasLarge reports whether there is an author whose posts may be pulled.
func (t *truth) hasLarge(pushLimit int) bool {
	for _, followers := range t.followers {
		if pushLimit > 0 && followers > pushLimit {
			return true
		}
	}
	return false
}

func (o *observer) delivery(ctx context.Context, author, post string) (delivery, error) {
	d, err := o.sessions.of(author).Delivery(ctx, post)
	if err != nil {
		return delivery{}, err
	}
	number := func(n *int64) int64 {
		if n == nil {
			return -1
		}
		return *n
	}
	return delivery{d.State, number(d.Planned), number(d.Delivered), number(d.Skipped)}, nil
}

// verifySure compares the state of the service with a truth without open questions. It
// first reads the deliveries, because away readers return when their homes are read.
func (o *observer) verifySure(ctx context.Context, t *truth, deliveries bool) (Report, error) {
	var findings []finding
	if deliveries {
		var posts []unit
		for _, post := range t.postIDs() {
			posts = append(posts, unit{deliveryOf, post})
		}
		found, err := o.settle(ctx, t, posts)
		if err != nil {
			return Report{}, err
		}
		findings = append(findings, found...)
	}
	var homes []unit
	for _, user := range slices.Sorted(maps.Keys(t.away)) {
		homes = append(homes, unit{homeOf, user})
	}
	others := slices.DeleteFunc(t.units(), func(u unit) bool { return u.kind == homeOf && t.away[u.name] })
	few := *o
	few.Concurrency = min(o.Concurrency, returning)
	found, err := few.settle(ctx, t, homes)
	if err != nil {
		return Report{}, err
	}
	first := time.Now()
	findings = append(findings, found...)
	if found, err = o.settle(ctx, t, others); err != nil {
		return Report{}, err
	}
	findings = append(findings, found...)
	if len(t.away) > 0 && o.Rebuilt > 0 {
		o.awaitQuiet(ctx)
		if err := backoff.Wait(ctx, time.Until(first.Add(o.Rebuilt))); err != nil {
			return Report{}, err
		}
		if found, err = o.settle(ctx, t, homes); err != nil {
			return Report{}, err
		}
		for _, f := range found {
			f.delivered = 0 // the first read has counted the deliveries already
			findings = append(findings, f)
		}
	}
	return o.report(t, findings), nil
}

// settle compares units with the truth. It repeats the comparison while the results improve.
func (o *observer) settle(ctx context.Context, t *truth, units []unit) ([]finding, error) {
	if len(units) == 0 {
		return nil, nil
	}
	c := newComparison(t, units)
	wait := patience{settle: o.Settle}
	for {
		if err := o.compare(ctx, c, false); err != nil {
			return nil, fmt.Errorf("read back: %w", err)
		}
		if wait.over(c.open, c.findings) {
			return c.findings, nil
		}
		if err := backoff.Wait(ctx, recheck); err != nil {
			return nil, fmt.Errorf("read back: %w", err)
		}
	}
}
