package transfer

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"fanfare/internal/feed"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// kind is the type of a record.
type kind string

const (
	kindUser     kind = "user"
	kindFollow   kind = "follow"
	kindMute     kind = "mute"
	kindBlock    kind = "block"
	kindPost     kind = "post"
	kindRepost   kind = "repost"
	kindComment  kind = "comment"
	kindLike     kind = "like"
	kindBookmark kind = "bookmark"
	kindMarker   kind = "marker"
)

// kindSpec declares a kind of record. All code of package transfer and the table in docs/IMPORT.md read the declaration,
// so a new kind is one row of kinds.
type kindSpec struct {
	name               kind
	required, optional []string
	// check refuses values that the grammar of the fields allows, and define adds the record to the index. Both may be nil.
	check  func(*checks, *record)
	define func(*index, place, *record) []defect
	// most, if not 0, is the maximum number of records of one user, and over is the fault of the next record.
	most int
	over string
	// Records with the same key are written one after another, because they change the same counts.
	key func(*record) string
	// write is nil for likes, because an aggregator writes likes together with their counts.
	write func(*importer, context.Context, *record) error
	// items returns the keys of the items. The post is the post of the record, if the record has one.
	items func(*record, schema.PostRef) []table.Key
	// export writes the records of a user in a stage of the export. It is nil for records that are written with their posts.
	export func(*exporter, context.Context, string) error
	stage  stage
	// own means that the export of a single user calls export, too.
	own bool
}

// stage is the place of a kind in an export: with the user, before, with or after the user's posts.
type stage int

const (
	withUser stage = iota + 1
	beforePosts
	withPosts
	afterPosts
)

// kinds has the kinds in the order of their import. Each kind needs only the kinds before it. Follows are written
// before posts, because the delivery of a post writes pages of entries, and the backfill of a follow writes only few
// entries at a time.
var kinds = []kindSpec{ //nolint:gochecknoglobals // a constant in all but name
	{
		name: kindUser, required: []string{"id", "name", "time"}, optional: []string{"bio", "image_url", "data"},
		check:  func(c *checks, r *record) { c.values(r.profile().Check()) },
		define: (*index).user, key: (*record).itself,
		write: func(im *importer, ctx context.Context, r *record) error {
			return im.feed.ImportUser(ctx, r.ID, r.profile(), r.Time)
		},
		items:  func(r *record, _ schema.PostRef) []table.Key { return []table.Key{schema.ProfileKey(r.ID)} },
		export: (*exporter).user, stage: withUser,
	},
	{
		name: kindFollow, required: []string{"follower_id", "author_id", "time"}, optional: []string{"from", "silent"},
		check: (*checks).follow, key: func(r *record) string { return r.FollowerID }, write: (*importer).follow,
		items: func(r *record, _ schema.PostRef) []table.Key {
			return []table.Key{schema.FollowerKey(r.AuthorID, r.FollowerID), schema.FollowingKey(r.FollowerID, r.AuthorID)}
		},
		export: (*exporter).follows, stage: beforePosts,
	},
	{
		name: kindMute, required: []string{"user_id", "other_id", "time"},
		check: (*checks).other, most: feed.MaxMutes, over: "%s mutes more than %d users", key: (*record).user,
		write: func(im *importer, ctx context.Context, r *record) error {
			return im.feed.ImportMute(ctx, r.UserID, r.OtherID, r.Time)
		},
		items: func(r *record, _ schema.PostRef) []table.Key {
			return []table.Key{schema.MuteKey(r.UserID, r.OtherID), schema.MuterKey(r.OtherID, r.UserID)}
		},
		export: (*exporter).mutes, stage: withUser, own: true,
	},
	{
		name: kindBlock, required: []string{"user_id", "other_id", "time"},
		check: (*checks).other, define: (*index).block, key: (*record).user,
		write: func(im *importer, ctx context.Context, r *record) error {
			return im.feed.ImportBlock(ctx, r.UserID, r.OtherID, r.Time)
		},
		items: func(r *record, _ schema.PostRef) []table.Key {
			return []table.Key{schema.BlockKey(r.UserID, r.OtherID), schema.BlockKey(r.OtherID, r.UserID)}
		},
		export: (*exporter).blocksOf, stage: withUser, own: true,
	},
	{
		name: kindPost, required: []string{"id", "author_id", "time"}, optional: append(ofContent(), "edited_at", "quote_of"),
		check: (*checks).post, define: (*index).post, key: func(r *record) string { return r.AuthorID }, write: (*importer).post,
		items: func(r *record, post schema.PostRef) []table.Key {
			return []table.Key{schema.PostKey(r.AuthorID, post.ID), schema.PostByIDKey(post.ID)}
		},
		export: (*exporter).postsOf, stage: withPosts,
	},
	{
		name: kindRepost, required: []string{"id", "post_id", "user_id", "time"}, define: (*index).repost, key: (*record).user, write: (*importer).repost,
		items: func(r *record, post schema.PostRef) []table.Key {
			made, _ := r.madeID() // the write has made the id without an error
			return []table.Key{schema.RepostKey(r.UserID, post.ID), schema.PostByIDKey(made), schema.PostKey(r.UserID, made)}
		},
		export: (*exporter).repostsOf, stage: afterPosts,
	},
	{
		name: kindComment, required: []string{"id", "post_id", "author_id", "text", "time"}, optional: []string{"data", "mentions"},
		check:  func(c *checks, r *record) { c.values(r.comment().Check()) },
		define: (*index).comment, key: (*record).itself, write: (*importer).comment,
		items: func(r *record, post schema.PostRef) []table.Key {
			made, _ := r.madeID() // the write has made the id without an error
			return []table.Key{schema.CommentKey(post.ID, made)}
		},
	},
	{
		name: kindLike, required: []string{"post_id", "user_id", "time"}, optional: []string{"kind"}, check: (*checks).like,
		items: func(r *record, post schema.PostRef) []table.Key {
			return []table.Key{schema.LikeKey(post.ID, r.UserID, post.LikeShards)}
		},
	},
	{
		name: kindBookmark, required: []string{"post_id", "user_id", "time"}, most: feed.MaxBookmarks, over: "%s has more than %d bookmarks",
		key: (*record).user,
		write: func(im *importer, ctx context.Context, r *record) error {
			return im.feed.ImportBookmark(ctx, r.UserID, im.index.postID(r.PostID), r.Time)
		},
		items: func(r *record, post schema.PostRef) []table.Key {
			return []table.Key{schema.BookmarkOfKey(r.UserID, post.ID)}
		},
		export: func(e *exporter, ctx context.Context, user string) error {
			return e.kept(ctx, kindBookmark, user, schema.BookmarksPK(user), feed.MaxBookmarks, func(it table.Item) (post, at string, err error) {
				b, err := schema.ParseBookmark(it)
				return b.Post, b.V, err
			})
		},
		stage: afterPosts, own: true,
	},
	{
		name: kindMarker, required: []string{"user_id", "name", "position", "time"}, most: feed.MaxMarkers, over: "%s has more than %d markers",
		check: func(c *checks, r *record) { c.values(feed.CheckMarker(r.Name, r.Position)) }, key: (*record).user,
		write: func(im *importer, ctx context.Context, r *record) error {
			return im.feed.ImportMarker(ctx, r.UserID, r.Name, r.Position, r.Time)
		},
		items: func(r *record, _ schema.PostRef) []table.Key { return []table.Key{schema.MarkerKey(r.UserID, r.Name)} },
		export: func(e *exporter, ctx context.Context, user string) error {
			return e.all(ctx, schema.MarkersPK(user), feed.MaxMarkers, func(it table.Item) (*record, error) {
				m, err := schema.ParseMarker(it)
				return &record{Type: kindMarker, UserID: user, Name: m.Name, Position: m.Position, Time: m.At}, err
			})
		},
		stage: beforePosts, own: true,
	},
}

// spec returns the row of a kind, nil for an unknown kind.
func (k kind) spec() *kindSpec {
	for i := range kinds {
		if kinds[i].name == k {
			return &kinds[i]
		}
	}
	return nil
}

// many returns the plural.
func (k kind) many() string { return string(k) + "s" }

// list joins parts for a sentence: a part for each kind, except empty parts.
func list(last string, part func(kind) string) string {
	var all []string
	for _, k := range kinds {
		if p := part(k.name); p != "" {
			all = append(all, p)
		}
	}
	rest := max(0, len(all)-1)
	return strings.Join(all[:rest], ", ") + " " + last + " " + strings.Join(all[rest:], "")
}

// Counts has numbers of records by the plural of their kind, such as "users".
type Counts map[string]int

func (c Counts) String() string {
	return list("and", func(k kind) string {
		if n, is := c[k.many()]; is {
			return fmt.Sprint(n, " ", k.many())
		}
		return ""
	})
}

// ofPosts returns zero numbers for posts and for the kinds whose records name a post.
func ofPosts() Counts {
	c := Counts{}
	for _, k := range kinds {
		if k.name == kindPost || slices.Contains(k.required, "post_id") {
			c[k.name.many()] = 0
		}
	}
	return c
}

// field is a field of record: its place in the struct, and the kind of object that the field names.
type field struct {
	index []int
	names string
}

// fields has the fields of record by their names in a line.
var fields = fieldsOf(reflect.TypeFor[record]()) //nolint:gochecknoglobals // a constant in all but name

func fieldsOf(of reflect.Type) map[string]field {
	all := map[string]field{}
	for _, f := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			all[name] = field{f.Index, f.Tag.Get("names")}
		}
	}
	return all
}

// ofContent returns the names of the fields that the author of a post writes.
func ofContent() []string {
	return slices.Sorted(maps.Keys(fieldsOf(reflect.TypeFor[messages.Content]())))
}
