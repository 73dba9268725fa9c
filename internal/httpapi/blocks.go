package httpapi

import (
	"context"
	"net/http"
)

// refusesBlocked describes the refusal of a call by a block.
const refusesBlocked = "A block between you and that user, by either of you, refuses it: 403 of type blocked."

// registerBlocks adds the calls by which users end all dealings with others.
func (a *API) registerBlocks() {
	const tag = "Users"
	block := operation(http.MethodPut, "/v1/me/blocks/{id}", "block", tag, "Block a user", http.StatusNoContent, http.StatusNotFound, http.StatusConflict)
	block.Description = "It ends the follows between the two of you at once. While one of you blocks the other, follows, comments and likes between you are " +
		"403 of type blocked; likes are within a few seconds. What was there before stays."
	register(a, block, func(ctx context.Context, in *UserPath) (*empty, error) {
		return nil, a.feed.Block(ctx, userOf(ctx), in.ID)
	})
	unblock := operation(http.MethodDelete, "/v1/me/blocks/{id}", "unblock", tag, "Unblock a user", http.StatusNoContent, http.StatusNotFound, http.StatusConflict)
	unblock.Description = "A block by the other user stays, and follows do not come back."
	register(a, unblock, func(ctx context.Context, in *UserPath) (*empty, error) {
		return nil, a.feed.Unblock(ctx, userOf(ctx), in.ID)
	})
	a.registerOwnList("blocks", "List the users that you block, by user id", a.feed.Blocks, a.feed.BlockViews)
}
