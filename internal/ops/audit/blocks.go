package audit

import (
	"context"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// blockItem compares one side of the blocks between two users with the other side. Each
// transaction that changes a block writes both sides.
func (r *run) blockItem(ctx context.Context, it table.Item) error {
	b, err := schema.ParseBlock(it)
	if err != nil {
		return nil //nolint:nilerr // an item that cannot be read is skipped
	}
	key, want := schema.BlockKey(b.Other, b.User), schema.Block{User: b.Other, Other: b.User, Since: b.By, By: b.Since}.Item()
	found, err := r.get(ctx, false, key)
	if err != nil {
		return err
	}
	other, there := found[key]
	if there && sameItem(other, want) {
		return nil
	}
	var as table.Cond = table.Absent{}
	if there {
		as = table.All{same(other, schema.AttrSince), same(other, schema.AttrBlockedBy)}
	}
	broken, err := r.transact(ctx, check(it.Key, table.All{same(it, schema.AttrSince), same(it, schema.AttrBlockedBy)}), check(key, as))
	if err != nil || !broken {
		return err
	}
	return r.found(ctx, BlockHalf, key, "the other side of this block says something else", func() (bool, error) {
		return r.cfg.Feed.MendBlock(ctx, b.User, b.Other)
	})
}
