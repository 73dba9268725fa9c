package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// In some worlds a last storm is about a kept block and mute: one user blocks and mutes another user, who
// leaves and returns (docs/decisions/0034). The two users follow no user of the workload, so all other oracles
// ignore them.

const (
	victim, blocked, friend = "victim", "blocked", "friend"
	// keptEvery and keptAt choose the worlds. These worlds have no calm part.
	keptEvery, keptAt = 3, 1
)

// keptStep is an operation on the two users. client is the number of the workload's user in whose
// name the operation runs.
type keptStep struct {
	client int
	name   string
	do     func(ctx context.Context, s *domain) error
}

// kept is the oracle's knowledge of the storm.
type kept struct {
	// begun is set by the first answer of any kind.
	begun bool
	// answered has the names of the block and of the mute, each from the first answer to its call on.
	answered map[string]bool
	// ended has the names of the block and of the mute, each once the audit has ended it.
	ended map[string]bool
}

func keptSteps() []keptStep {
	follow := keptStep{2, "follow", func(ctx context.Context, s *domain) error { return s.Follow(ctx, blocked, victim) }}
	steps := []keptStep{
		{0, "block", func(ctx context.Context, s *domain) error { return s.Block(ctx, victim, blocked) }},
		{0, "mute", func(ctx context.Context, s *domain) error { return s.Mute(ctx, victim, blocked) }},
	}
	for range 3 {
		steps = append(steps,
			keptStep{1, "follow a friend", func(ctx context.Context, s *domain) error { return s.Follow(ctx, blocked, friend) }},
			keptStep{1, "mute a friend", func(ctx context.Context, s *domain) error { return s.Mute(ctx, blocked, friend) }},
			keptStep{1, "block back", func(ctx context.Context, s *domain) error { return s.Block(ctx, blocked, victim) }},
			keptStep{1, "leave", func(ctx context.Context, s *domain) error { _, err := s.AskToForget(ctx, blocked); return err }},
			keptStep{1, "return", func(ctx context.Context, s *domain) error {
				_, err := s.PutProfile(ctx, blocked, feed.ProfileInput{Name: blocked})
				return err
			}},
			keptStep{3, "tidy", func(ctx context.Context, s *domain) error {
				_, blockErr := s.EndKeptBlock(ctx, victim, blocked)
				_, muteErr := s.EndKeptMute(ctx, victim, blocked)
				return errors.Join(blockErr, muteErr)
			}},
			follow, follow)
	}
	return steps
}

// keptStorm runs the storm, and checks the kept blocks and mutes.
func (w *World) keptStorm(ctx context.Context, o Options) {
	if o.Calm || o.Plain || o.Fans > 0 || w.seed%keptEvery != keptAt || len(w.load.violations) > 0 {
		return
	}
	for _, user := range []string{victim, blocked, friend} {
		if user != blocked || w.seed%2 == 0 {
			w.write(schema.Profile{User: user, Name: user, CreatedAt: time.Now()}.Item())
		}
	}
	if w.seed%2 == 1 { // the blocked user was removed more than a year ago
		at := time.Now()
		mute, muter := schema.Mute{User: victim, Author: blocked, Since: at}.Items()
		for _, it := range []table.Item{
			schema.Block{User: victim, Other: blocked, Since: at}.Item(), schema.Block{User: blocked, Other: victim, By: at}.Item(),
			schema.BlocksItem(victim, at), schema.BlocksItem(blocked, at), mute, muter,
		} {
			w.write(it)
		}
	}
	w.begin(9)
	w.faults = w.shape.rates()
	due, know := keptSteps(), &kept{answered: map[string]bool{}, ended: map[string]bool{}}
	w.kept = know
	wait := w.rng.IntN(2) == 0 // wait for the block, so that the block lasts longer than all removals
	next := func() bool {
		i := slices.IndexFunc(due, func(s keptStep) bool {
			return w.load.busy[w.clientOf(s)] == nil && (s.client == 0 || know.begun || !wait)
		})
		if api := w.load.apis[w.rng.IntN(len(w.load.apis))]; i >= 0 && api.up() {
			w.load.run(w.keptOperation(due[i], know), api)
			due = slices.Delete(due, i, i+1)
			return true
		}
		return false
	}
	for len(due) > 0 && w.steps < mostSteps {
		w.step(next)
		w.load.settled()
	}
	w.heldBack = false
	clear(w.armed)
	w.quieten(ctx)
	w.checkKept(know)
}

func (w *World) clientOf(s keptStep) string { return w.load.users[s.client%len(w.load.users)] }

// keptOperation makes an operation of the storm. A follow that begins after the answer to the block
// must be refused.
func (w *World) keptOperation(s keptStep, know *kept) *operation {
	certain := know.answered["block"]
	return &operation{
		name: s.name, user: w.clientOf(s), do: s.do,
		settle: func(err error) {
			know.begun = true
			if err == nil && s.name == "follow" && certain && !know.ended["block"] {
				w.load.fail("I2", "%s follows %s over a kept block", blocked, victim)
			}
			if err == nil {
				know.answered[s.name] = true
			}
		},
	}
}

// sawKept checks a write to the block or the mute. Only the audit may end a block or mute, and only while the
// blocked user has neither a profile nor a note of a removal.
func (w *World) sawKept(key table.Key, now *table.Item) {
	name := map[table.Key]string{schema.BlockKey(victim, blocked): "block", schema.MuteKey(victim, blocked): "mute"}[key]
	before := w.items[key]
	if w.kept == nil || name == "" || before == nil || !before.Has(schema.AttrSince) || now != nil && now.Has(schema.AttrSince) {
		return
	}
	w.kept.ended[name] = true
	for _, stands := range []table.Key{schema.ProfileKey(blocked), schema.ForgottenKey(blocked)} {
		if w.items[stands] != nil {
			w.load.fail("I5", "the %s of %s ends, and %v is there", name, blocked, stands)
		}
	}
}

// checkKept checks that both halves of the answered block and of the answered mute exist, unless a
// call or the audit has ended them.
func (w *World) checkKept(know *kept) {
	for _, half := range []struct {
		name, attr string
		key        table.Key
	}{
		{"block", schema.AttrSince, schema.BlockKey(victim, blocked)}, {"block", schema.AttrBlockedBy, schema.BlockKey(blocked, victim)},
		{"mute", schema.AttrSince, schema.MuteKey(victim, blocked)}, {"mute", schema.AttrSince, schema.MuterKey(blocked, victim)},
	} {
		it := w.itemOf(half.key)
		if know.answered[half.name] && !know.ended[half.name] && (it == nil || !it.Has(half.attr) || it.Has(table.AttrTTL)) {
			w.load.fail("I5", "the %s of %s was answered, and %v is %v", half.name, blocked, half.key, it)
		}
	}
	w.checkHidden(victim)
	w.checkHidden(blocked)
}
