package audit

import (
	"context"
	"slices"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// keptBlock ends a kept block whose time is over. It begins with the side of the user who blocks.
func (r *run) keptBlock(ctx context.Context, it table.Item) error {
	b, err := schema.ParseBlock(it)
	if err != nil || b.Since.IsZero() || !r.walk.Tidy {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	return r.kept(ctx, b.User, b.Other, r.cfg.Feed.EndKeptBlock)
}

// keptMute ends a kept mute whose time is over. It skips all other items of a home.
func (r *run) keptMute(ctx context.Context, it table.Item) error {
	if _, ok := schema.MutedOfSK(it.Key.SK); !ok || !r.walk.Tidy {
		return nil
	}
	m, err := schema.ParseMute(it)
	if err != nil {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	return r.kept(ctx, m.User, m.Author, r.cfg.Feed.EndKeptMute)
}

// kept calls end if other has no profile, no note of a removal and no count. A user with a count
// and without a profile has lost the profile by damage, and end would make this damage worse. The
// transaction of end checks the profile and the note again.
func (r *run) kept(ctx context.Context, user, other string, end func(ctx context.Context, user, other string) (bool, error)) error {
	found, err := r.get(ctx, false, schema.ProfileKey(other), schema.ForgottenKey(other))
	if err != nil || len(found) > 0 {
		return err
	}
	items, err := r.userItems(ctx, other)
	if err != nil || slices.ContainsFunc(countsOf(other, items), func(c counted) bool { return c.count > 0 }) {
		return err
	}
	_, err = end(ctx, user, other)
	return err
}
