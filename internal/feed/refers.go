package feed

import (
	"cmp"
	"context"
	"slices"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file contains the reads of posts to which other posts refer. A repost shows only while its original shows; a
// quote shows without its quoted post. An original that itself quotes a post shows only the id of that post, so a chain
// of quotes costs no more reads.

// original returns the living post that a repost or a quote of post refers to: the post, or the original of a repost.
func (s *Service) original(ctx context.Context, by access.Viewer, post string) (schema.PostRef, error) {
	seen, err := s.access.LivingPost(ctx, by, post)
	if of := seen.Ref().RepostOf; of != "" {
		seen, err = s.access.LivingPost(ctx, by, of)
	}
	byID := seen.Ref()
	if down := byID.TakenDown; down != nil {
		err = fault.NotFoundf("post %s was taken down", byID.ID)
	}
	return byID, err
}

// quoted returns the reference of a new post that quotes a post, and the reason why author may not quote the post.
func (s *Service) quoted(ctx context.Context, author, post string) (of Reference, refused, err error) {
	if post == "" {
		return Reference{}, nil, nil
	}
	byID, refused := s.original(ctx, access.As(author), post)
	if err := access.Failure(refused); err != nil {
		return Reference{}, nil, err
	}
	if refused == nil {
		refused = s.notBlocked(ctx, author, byID.Author)
	}
	if refused == nil {
		refused = s.refer(ctx, byID)
	}
	return Reference{QuoteOf: cmp.Or(byID.ID, post), OfAuthor: byID.Author, OfShards: byID.LikeShards}, refused, access.Failure(refused)
}

// refer flags a living post before its first repost or quote is published, so that the process which edits or deletes the
// post knows that homes without the author may show the post.
func (s *Service) refer(ctx context.Context, of schema.PostRef) error {
	if of.Referred {
		return nil
	}
	_, err := s.access.Store.Update(ctx, table.UpdateInput{
		Key: schema.PostByIDKey(of.ID), Set: []table.Attr{{Name: schema.AttrReferred, Value: table.N(1)}},
		If: table.All{table.Exists{}, table.AttrAbsent{Name: schema.AttrDeleted}},
	})
	if access.ConditionFailed(err) {
		return fault.NotFoundf("post %s was deleted", of.ID)
	}
	return fault.Wrap("table", err)
}

// referUnread flags the post to which a post of an event refers. The event may be of another producer.
func (s *Service) referUnread(ctx context.Context, of Reference) error {
	if of.Of() == "" {
		return nil
	}
	seen, err := s.access.LivingPost(ctx, access.AnyAudience(access.Worker), of.Of())
	if err == nil {
		err = s.refer(ctx, seen.Ref())
	}
	return access.Failure(err) // a post that is gone never shows again
}

// refTo returns the reference to a referred post.
func refTo(of Reference) access.Ref {
	return access.Ref{Post: of.Of(), Author: of.OfAuthor, LikeShards: max(1, of.OfShards)}
}

// refsTo returns the posts to which posts refer, each post once.
func refsTo(all []Reference) (refs []access.Ref) {
	for _, of := range all {
		if of.Of() != "" && !slices.Contains(refs, refTo(of)) {
			refs = append(refs, refTo(of))
		}
	}
	return refs
}

// hiddenAmong returns the authors whose posts the viewer does not see, whoever refers to these posts: authors whom the
// viewer mutes, and authors with a block between them and the viewer.
func (s *Service) hiddenAmong(ctx context.Context, viewer string, refs []access.Ref) (hidden map[string]bool, err error) {
	authors := make([]string, 0, len(refs))
	for _, r := range refs {
		if r.Author != viewer {
			authors = append(authors, r.Author)
		}
	}
	var blocked map[string]bool
	if len(authors) == 0 {
		return map[string]bool{}, nil
	}
	err = s.access.All(ctx,
		func(ctx context.Context) (err error) { hidden, err = s.MutesOf(ctx, viewer); return err },
		func(ctx context.Context) (err error) { blocked, err = s.blockedAmong(ctx, viewer, authors); return err },
	)
	for author := range blocked {
		hidden[author] = true
	}
	return hidden, err
}

// referred are reads of the posts to which posts refer, and of the authors whose posts the viewer does not see.
type referred struct {
	posts  *access.Readables
	hidden map[string]bool
}

// firstShown returns the first missing references to living posts that a page shows, and whether another such reference
// follows. posts has the posts of all references. firstShown leaves out what withReferred leaves out: otherwise hidden
// reposts would take the places of posts that the page then skips.
func (s *Service) firstShown(ctx context.Context, viewer Viewer, posts access.Readables, living []access.Ref, missing int) (shown []access.Ref, more bool, read *referred, err error) {
	all := make([]Reference, len(living))
	for i, r := range living {
		p, _, err := posts.Of(schema.PostKey(r.Author, r.Post))
		if err != nil {
			return nil, false, nil, err
		}
		all[i] = p.Post().Reference
	}
	read = &referred{posts: &access.Readables{}}
	if refs := refsTo(all); len(refs) > 0 {
		err := s.access.All(ctx,
			func(ctx context.Context) (err error) {
				read.hidden, err = s.hiddenAmong(ctx, viewer.ID(), refs)
				return err
			},
			func(ctx context.Context) (err error) {
				*read.posts, err = s.access.Posts(ctx, viewer.ofReferred().By, access.PostKeys(refs))
				return err
			},
		)
		if err != nil {
			return nil, false, nil, err
		}
	}
	for i, r := range living {
		if all[i].RepostOf != "" && (!read.posts.Has(schema.PostKey(all[i].OfAuthor, all[i].RepostOf)) || read.hidden[all[i].OfAuthor]) {
			continue
		}
		if len(shown) == missing {
			return shown, true, read, nil
		}
		if viewer.Once.Takes(r.Post, all[i]) {
			shown = append(shown, r)
		}
	}
	return shown, false, read, nil
}
