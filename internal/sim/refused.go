package sim

import (
	"context"
	"errors"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
)

// refusedEvery is the number of seeds of which one asks each API for each user once more.
const refusedEvery = 4

// refusesNobody checks that no caller is refused for ever: two days after the last storm each process that lived through it
// accepts a post of each user, whatever became of the user's earlier posts. A process whose clock leapt ahead has ids of that
// clock, and a call without an answer is not refused.
func (w *World) refusesNobody(o Options) {
	if w.seed%refusedEvery != 3 || o.Calm || o.Plain || o.Fans > 0 || w.hours || w.Fired[FaultLeap] > 0 || len(w.load.violations) > 0 {
		return
	}
	w.faults, w.tight, w.targets, w.heldBack = Rates{}, nil, nil, false
	clear(w.armed)
	w.begin(8)
	w.pause(2 * day)
	for _, api := range w.load.apis {
		if api.dead || api.wrong || api.asleep || w.load.farAhead(api) {
			continue
		}
		for _, user := range append(slices.Clone(w.load.users), leaver, teller) {
			client := user
			if !slices.Contains(w.load.clients, user) {
				client = lifeClients()[0]
			}
			w.load.run(&operation{
				name: "post once more", user: client,
				do: func(ctx context.Context, s *domain) error {
					_, err := s.CreatePost(ctx, user, feed.PostInput{Content: feed.Content{Text: "once more"}})
					return err
				},
				settle: func(err error) {
					refused, ok := errors.AsType[*fault.Error](err)
					if err != nil && !errors.Is(err, context.DeadlineExceeded) && (!ok || refused.Kind != fault.ProfileMissing) {
						w.load.fail("I8", "days after the last storm %s refuses a post of %s: %v", api.Name, user, err)
					}
				},
			}, api)
			for tries := 0; w.load.busy[client] != nil && tries < mostSteps; tries++ {
				w.step(func() bool { return false })
				w.load.settled()
			}
		}
	}
}
