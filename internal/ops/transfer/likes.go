package transfer

import (
	"context"
	"fmt"
	"time"

	"fanfare/internal/likeagg"
)

// likesHeld is the maximum number of likes in memory that are not counted yet.
const likesHeld = 20_000

// count counts actions with a separate aggregator.
func (im *importer) count(ctx context.Context, counted func(), give func(ctx context.Context, add func(likeagg.UserAction) error) error) error {
	return likeagg.Direct(ctx, likeagg.Config{
		Store: im.store, Now: im.cfg.Now, Clock: im.cfg.Clock, Window: im.cfg.LikeWindow, MaxMessages: likesHeld,
		PutConcurrency: im.cfg.AtOnce, IndexLikes: im.cfg.LikesByUser, Grace: time.Minute, Random: im.cfg.Random, Log: im.cfg.Log,
	}, counted, give)
}

// likes counts the likes in the files.
func (im *importer) likes(ctx context.Context, k *kindSpec) error {
	ph := im.phase(k.name)
	err := im.count(ctx, func() { ph.add(1) }, func(ctx context.Context, add func(likeagg.UserAction) error) error {
		return im.eachRecord(ctx, k.name, func(at place, r *record) error {
			post := im.index.postID(r.PostID)
			version, err := r.version(post)
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			return add(likeagg.UserAction{Post: post, User: r.UserID, Kind: r.reaction(), Version: version})
		})
	})
	ph.finish()
	return err
}
