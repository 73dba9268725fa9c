package sim

import (
	"context"
	"fmt"
	"slices"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
	"fanfare/internal/schema"
)

// next begins an operation of the traffic, in the name of a user of the workload without an open
// operation.
func (m *moves) next(left *int) bool {
	w, l := m.w, m.w.load
	client := slices.IndexFunc(l.users, func(user string) bool { return l.busy[user] == nil })
	api := l.apis[w.rng.IntN(len(l.apis))]
	if client < 0 || !api.up() {
		return false
	}
	*left--
	if op := m.operation(l.users[client]); op != nil {
		l.run(op, api)
	}
	return true
}

// operation draws an operation of the traffic. A record that the operation may change may differ
// from the file afterwards.
func (m *moves) operation(client string) *operation {
	r, users := m.w.rng, townsfolk()
	user := users[r.IntN(len(users))]
	other := users[(slices.Index(users, user)+1+r.IntN(len(users)-1))%len(users)]
	kinds := []string{"follow", "follow", "unfollow", "post", "post", "like", "like", "react", "unlike", "comment", "comment", "delete", "profile", "bookmark", "repost", "repost", "unrepost", "quote", "home"}
	op := &operation{name: kinds[r.IntN(len(kinds))], user: client, settle: func(error) {}}
	post, known := m.aPost()
	touch := func(key recordKey) { m.touched[key] = true }
	m.made++
	text := fmt.Sprintf("traffic %d", m.made)
	switch op.name {
	case "follow", "unfollow":
		touch(recordKey{kind: "follow", who: user, other: other})
		op.do = func(ctx context.Context, s *domain) error {
			if op.name == "follow" {
				return s.Follow(ctx, user, other)
			}
			return s.Unfollow(ctx, user, other)
		}
	case "post":
		touch(recordKey{kind: "post", who: user, post: text})
		op.do = func(ctx context.Context, s *domain) error {
			_, err := s.CreatePost(ctx, user, feed.PostInput{Content: feed.Content{Text: text}})
			return err
		}
	case "profile":
		touch(recordKey{kind: "user", who: user})
		op.do = func(ctx context.Context, s *domain) error {
			_, err := s.PutProfile(ctx, user, feed.ProfileInput{Name: text})
			return err
		}
	case "home":
		op.do = func(ctx context.Context, s *domain) error {
			_, err := s.Home(ctx, user, home.Query{}, page.Request{})
			return err
		}
	default:
		if !known {
			return nil
		}
		m.onPost(op, post, user, text)
	}
	return op
}

// onPost makes an operation on a post.
func (m *moves) onPost(op *operation, post schema.Post, user, text string) {
	switch op.name {
	case "like", "react", "unlike":
		m.touched[recordKey{kind: "like", who: user, post: post.Text}] = true
		kind := map[string]string{"like": schema.KindLike, "react": kinds()[0]}[op.name]
		op.do = func(ctx context.Context, s *domain) error {
			if kind == "" {
				return s.Unlike(ctx, user, post.ID)
			}
			return s.React(ctx, user, post.ID, kind)
		}
	case "comment":
		m.touched[recordKey{kind: "comment", who: user, post: post.Text, other: text}] = true
		op.do = func(ctx context.Context, s *domain) error {
			_, err := s.CreateComment(ctx, user, post.ID, text)
			return err
		}
	case "bookmark":
		m.touched[recordKey{kind: "bookmark", who: user, post: post.Text}] = true
		op.do = func(ctx context.Context, s *domain) error { return s.Bookmark(ctx, user, post.ID) }
	case "repost", "unrepost":
		if by := m.reposters[post.Text]; by != "" && m.w.rng.IntN(2) == 0 { // the import has a repost of this post, too
			user = by
		}
		m.touched[recordKey{kind: "repost", who: user, post: post.Text}] = true
		op.do = func(ctx context.Context, s *domain) error {
			if op.name == "unrepost" {
				return s.EndRepost(ctx, user, post.ID)
			}
			_, err := s.Repost(ctx, user, post.ID)
			return err
		}
	case "quote":
		m.touched[recordKey{kind: "post", who: user, post: text}] = true
		m.touched[recordKey{kind: "quote", who: user, post: post.Text, other: text}] = true
		op.do = func(ctx context.Context, s *domain) error {
			_, err := s.CreatePost(ctx, user, feed.PostInput{Content: feed.Content{Text: text}, QuoteOf: post.ID})
			return err
		}
	case "delete":
		m.gone[post.Text] = true
		op.do = func(ctx context.Context, s *domain) error { return s.DeletePost(ctx, post.Author, post.ID) }
	}
}

// aPost draws a post of the town that the table has, but no repost.
func (m *moves) aPost() (post schema.Post, ok bool) {
	var all []schema.Post
	for _, user := range townsfolk() {
		for _, it := range m.w.partition(schema.PostsPK(user)) {
			if p, err := schema.ParsePost(it); err == nil && p.RepostOf == "" {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		return post, false
	}
	return all[m.w.rng.IntN(len(all))], true
}
