package notices

import (
	"context"
	"slices"

	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// This file decides by consistent reads which notifications a page shows, and which users a
// notification names.

// mostActors is the maximum number of actors that a notification shows.
const mostActors = 3

// visible returns the notifications that a page shows, with their actors.
//
// The mutes and blocks come first: a flood by a user whom the reader has blocked then costs no read of its posts.
func (r *reader) visible(ctx context.Context, all []Notice) ([]Notice, error) {
	if err := r.hideUnwanted(ctx, all); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(of Notice) bool {
		return of.endsHere() && !slices.ContainsFunc(of.acts, schema.Act.Holds)
	})
	if err := r.lookAtTargets(ctx, all); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(of Notice) bool { return of.Kind != schema.NoticeFollow && r.refs[of.Target].Post == "" })
	if err := r.hideActs(ctx, all); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(of Notice) bool { return len(of.Actors) == 0 && of.endsHere() }), nil
}

// endsHere reports whether no action but the stored actions can hold. If a full list names no user, an older action may
// still hold. Then the stored number decides.
func (of *Notice) endsHere() bool {
	return len(of.acts) < schema.NoticeActs || of.Kind == schema.NoticeMention
}

// hideUnwanted hides the actions of muted and blocked users.
func (r *reader) hideUnwanted(ctx context.Context, all []Notice) error {
	var blocked map[string]bool
	if users := usersOf(all, func(Notice) bool { return true }); r.blocks && len(users) > 0 {
		var err error
		if blocked, err = r.n.access.EdgesTo(ctx, schema.BlocksPK(r.user), users); err != nil {
			return err
		}
	}
	for i := range all {
		of := &all[i]
		of.acts = slices.Clone(of.acts)
		for j := range of.acts {
			if act := &of.acts[j]; act.Holds() && (r.muted[act.User] || blocked[act.User]) {
				act.State, of.hidden = "", of.hidden+1
			}
		}
	}
	return nil
}

// lookAtTargets reads the posts of the notifications. The keys of the reader's own posts are known.
func (r *reader) lookAtTargets(ctx context.Context, all []Notice) error {
	var mentions []string
	var refs []access.Ref
	for _, of := range all {
		switch {
		case of.Kind == schema.NoticeMention:
			mentions = append(mentions, of.Target)
		case of.Kind.OnOwnPost():
			refs = append(refs, access.Ref{Post: of.Target, Author: r.user})
		}
	}
	if len(mentions) > 0 {
		living, err := r.n.access.LivingPosts(ctx, access.As(r.user), mentions)
		if err != nil {
			return err
		}
		for post, seen := range living {
			refs = append(refs, access.Ref{Post: post, Author: seen.Ref().Author})
		}
	}
	refs = slices.DeleteFunc(refs, func(of access.Ref) bool {
		_, known := r.refs[of.Post]
		if !known {
			r.refs[of.Post] = access.Ref{}
		}
		return known
	})
	found, err := r.n.access.Posts(ctx, access.As(r.user), access.PostKeys(refs))
	if err != nil {
		return err
	}
	for _, ref := range refs {
		post, there, err := found.Of(schema.PostKey(ref.Author, ref.Post))
		if err != nil {
			return err
		}
		if there {
			ref.LikeShards = post.Post().LikeShards
			r.refs[ref.Post] = ref
		}
	}
	r.posts = r.posts.With(found)
	return nil
}

// hideActs sets the actors of the notifications: the newest users whose action holds. hideActs leaves
// out users without a profile, reactions of a kind that is switched off, and, for a follow, users who no longer
// follow the reader.
func (r *reader) hideActs(ctx context.Context, all []Notice) error {
	var follow map[string]bool
	if followers := usersOf(all, func(of Notice) bool { return of.Kind == schema.NoticeFollow }); len(followers) > 0 {
		var err error
		if follow, err = r.n.access.EdgesTo(ctx, schema.FollowersPK(r.user), followers, schema.AttrSilent); err != nil {
			return err
		}
	}
	for _, of := range all {
		for j := range of.acts {
			act := &of.acts[j]
			switch {
			case !act.Holds():
			case of.Kind == schema.NoticeLike && !r.n.access.ShowsReaction(act.State): // no number includes the action
				act.State = ""
			case of.Kind == schema.NoticeFollow && !follow[act.User]:
				act.State = ""
			}
		}
	}
	return r.name(ctx, all)
}

// name chooses the actors among the users whose action holds. name reads as few profiles as possible:
// three users for each notification, and one more user for each user without a profile.
func (r *reader) name(ctx context.Context, all []Notice) error {
	profiles := map[string]bool{}
	for {
		var unknown []table.Key
		for i := range all {
			of := &all[i]
			of.Actors = of.Actors[:0]
			for _, act := range of.acts {
				has, known := profiles[act.User]
				if !act.Holds() || known && !has || slices.ContainsFunc(of.Actors, func(a Actor) bool { return a.UserID == act.User }) {
					continue
				}
				if key := schema.ProfileKey(act.User); !known && !slices.Contains(unknown, key) {
					unknown = append(unknown, key)
				}
				of.Actors = append(of.Actors, actorOf(of.Kind, act))
				if len(of.Actors) == mostActors {
					break
				}
			}
		}
		if len(unknown) == 0 {
			break
		}
		if err := r.lookAtProfiles(ctx, unknown, profiles); err != nil {
			return err
		}
	}
	for i := range all {
		for _, act := range all[i].acts {
			if has, known := profiles[act.User]; act.Holds() && known && !has {
				all[i].hidden++
			}
		}
	}
	return nil
}

func actorOf(kind schema.NoticeKind, act schema.Act) Actor {
	actor := Actor{UserID: act.User, At: access.TimeOf(act.Version)}
	if kind == schema.NoticeLike {
		actor.Reaction = act.State
	}
	return actor
}

// lookAtProfiles records in known whether users have profiles. A profile may be a minute old, like
// names in lists. If a profile is absent, lookAtProfiles reads it once more, consistently.
func (r *reader) lookAtProfiles(ctx context.Context, keys []table.Key, known map[string]bool) error {
	found, err := r.n.access.Recent.Get(ctx, keys)
	if err != nil {
		return err
	}
	absent := slices.DeleteFunc(slices.Clone(keys), func(key table.Key) bool { _, ok := found[key]; return ok })
	again, err := r.n.access.BatchGet(ctx, absent, true, schema.AttrName)
	for _, key := range keys {
		user, _ := schema.UserOfProfile(key)
		_, there := found[key]
		_, late := again[key]
		known[user] = there || late
	}
	return err
}

// usersOf returns the users whose action holds, each user once, of the notifications that some
// selects.
func usersOf(all []Notice, some func(Notice) bool) []string {
	var users []string
	for _, of := range all {
		for _, act := range of.acts {
			if act.Holds() && some(of) && !slices.Contains(users, act.User) {
				users = append(users, act.User)
			}
		}
	}
	return users
}
