package transfer

import (
	"context"
	"fmt"
	"sync"

	"fanfare/internal/likeagg"
	"fanfare/messages"
)

// leftReposts are the reposts of the files that the table does not have.
type leftReposts struct {
	mu      sync.Mutex
	reposts map[string]bool
}

func (l *leftReposts) add(repost string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reposts == nil {
		l.reposts = map[string]bool{}
	}
	l.reposts[repost] = true
}

func (im *importer) repost(ctx context.Context, r *record) error {
	made, err := r.madeID()
	if err != nil {
		return err
	}
	ref, err := im.feed.ImportRepost(ctx, made, r.UserID, im.index.postID(r.PostID))
	if err != nil {
		return err
	}
	if ref.Deleted {
		im.left.add(made)
		return nil
	}
	return im.deliver(ctx, ref)
}

// countReposts counts the reposts in the files that the table has. All of them were written.
func (im *importer) countReposts(ctx context.Context) error {
	return im.count(ctx, nil, func(ctx context.Context, add func(likeagg.UserAction) error) error {
		return im.eachRecord(ctx, kindRepost, func(at place, r *record) error {
			repost, err := r.madeID()
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			if im.left.reposts[repost] {
				return nil
			}
			return add(likeagg.UserAction{Post: im.index.postID(r.PostID), User: messages.Reposter(repost), Kind: messages.KindRepost, Version: repost})
		})
	})
}
