package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/page"
)

// comment is a comment whose creation was answered.
type comment struct {
	post, author, text string
	mentions           []string
	number             int  // of its operation
	deleted            bool // the delete of the comment was answered
	doubtful           bool // a delete has no answer
}

func (l *workload) comment(r *rand.Rand, p planned) *operation {
	if len(l.posts) == 0 {
		return nil
	}
	living := slices.DeleteFunc(slices.Clone(l.posts), func(post string) bool { return l.deleted[post] })
	if len(living) == 0 || r.IntN(8) == 0 {
		living = l.posts
	}
	living = living[:min(len(living), 4)]
	// A delete may be running for some posts.
	if late := slices.DeleteFunc(slices.Clone(living), func(post string) bool { return !l.doubtful[post] }); len(late) > 0 {
		living = late
	}
	post := l.choose(r, living)
	said := fmt.Sprintf("comment %d", p.number)
	var made feed.Comment
	in := feed.CommentInput{Text: said, Mentions: l.mentions(r)}
	refused := l.refusedFor(p.user, l.owner[post], 0)
	return &operation{
		name: "comment " + post, user: p.user,
		do: func(ctx context.Context, s *domain) (err error) {
			made, err = s.AddComment(ctx, p.user, post, in)
			return err
		},
		settle: func(err error) {
			if err == nil {
				refused()
				l.comments[made.ID] = &comment{post: post, author: p.user, text: said, mentions: in.Mentions, number: p.number}
			}
		},
	}
}

func (l *workload) uncomment(r *rand.Rand, user string) *operation {
	var own []string
	for _, id := range sorted(l.comments) {
		if c := l.comments[id]; c.author == user && !c.deleted {
			own = append(own, id)
		}
	}
	if len(own) == 0 {
		return nil
	}
	id := own[choose(r, own, func(id string) string { return fmt.Sprint(l.comments[id].number) })]
	c := l.comments[id]
	return &operation{
		name: "uncomment " + id, user: user,
		do: func(ctx context.Context, s *domain) error { return s.DeleteComment(ctx, user, c.post, id) },
		settle: func(err error) {
			c.deleted = err == nil
			c.doubtful = c.doubtful || err != nil
		},
	}
}

// readComments pages through the comments of a post while other users write and delete
// comments.
func (l *workload) readComments(r *rand.Rand, user string) *operation {
	if len(l.posts) == 0 {
		return nil
	}
	post, limit := l.choose(r, l.posts[:min(len(l.posts), 4)]), 1+r.IntN(3)
	there, gone := l.commentsOf(post)
	var items []feed.Comment
	return &operation{
		name: fmt.Sprintf("comments %s limit %d", post, limit), user: user,
		do: func(ctx context.Context, s *domain) (err error) {
			items, err = allComments(ctx, s, post, limit)
			return err
		},
		settle: func(err error) {
			if err == nil {
				l.checkComments(post, items, there, gone)
			}
		},
	}
}

// commentsOf returns the comments that a list of the post must have, and the comments
// that it must not have.
func (l *workload) commentsOf(post string) (there, gone []string) {
	for _, id := range sorted(l.comments) {
		switch c := l.comments[id]; {
		case c.post != post:
		case c.deleted:
			gone = append(gone, id)
		default:
			there = append(there, id)
		}
	}
	return there, gone
}

// checkComments compares a list with the comments that existed when paging began. The list has each comment
// once and in order (I7), no deleted comment (I2), and all answered comments (I5).
func (l *workload) checkComments(post string, items []feed.Comment, there, gone []string) {
	last := ""
	shown := map[string]bool{}
	for _, c := range items {
		if c.ID <= last {
			l.fail("I7", "comments of %s show %s after %s", post, c.ID, last)
		}
		last, shown[c.ID] = c.ID, true
		if slices.Contains(gone, c.ID) {
			l.fail("I2", "comments of %s show %s, whose delete was answered before", post, c.ID)
		}
		if known := l.comments[c.ID]; known != nil && (known.text != c.Text || known.author != c.AuthorID) {
			l.fail("I5", "comment %s is %q by %s, want %q by %s", c.ID, c.Text, c.AuthorID, known.text, known.author)
		}
	}
	for _, id := range there {
		// The list may or may not have a comment whose deletion is running.
		if c := l.comments[id]; !shown[id] && !c.deleted && !c.doubtful && l.deleting(id) == nil {
			l.fail("I7", "comments of %s lack %s of %s", post, id, c.author)
		}
	}
}

// deleting returns the running operation that deletes a comment, or nil.
func (l *workload) deleting(id string) *operation {
	if op := l.busy[l.comments[id].author]; op != nil && op.name == "uncomment "+id {
		return op
	}
	return nil
}

func allComments(ctx context.Context, s *domain, post string, limit int) ([]feed.Comment, error) {
	var items []feed.Comment
	page := page.Request{Limit: limit}
	for {
		list, err := s.Comments(ctx, access.As(""), post, page)
		if err != nil {
			return nil, err
		}
		items = append(items, list.Items...)
		if list.NextCursor == "" {
			return items, nil
		}
		page.Cursor = list.NextCursor
	}
}

// checkTexts checks the comments and the text of each post once the world is quiet. An answered
// edit or comment exists (I5), and a deleted post has no comments (I2).
func (w *World) checkTexts(ctx context.Context, service *domain, living map[string]map[string]bool) {
	l := w.load
	for _, post := range l.posts {
		items, err := allComments(ctx, service, post, 2)
		if !living[l.owner[post]][post] {
			if failure, ok := errors.AsType[*fault.Error](err); !ok || failure.Kind != fault.NotFound {
				l.fail("I2", "comments of %s, which was deleted: %v", post, err)
			}
			continue
		}
		if err != nil {
			l.fail("I7", "comments of %s: %v", post, err)
			continue
		}
		there, gone := l.commentsOf(post)
		l.checkComments(post, items, there, gone)
		if view, err := service.PostView(ctx, access.As(l.owner[post]), post); err != nil || view.CommentCount != int64(len(items)) {
			l.fail("I4", "the view of %s has %d comments, want %d: %v", post, view.CommentCount, len(items), err)
		}
		got, err := service.Post(ctx, access.As(l.owner[post]), post)
		if t := l.texts[post]; err != nil || !t.may(got.Content) {
			l.fail("I5", "post %s has %q, want %q: %v", post, shownBy(got.Content), t.is, err)
		}
		if err == nil && shownBy(got.Content) == (parts{}) {
			l.fail("I5", "post %s shows nothing after edits", post)
		}
	}
}
