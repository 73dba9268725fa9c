package schema

import (
	"strings"
	"time"

	"fanfare/internal/table"
	"fanfare/messages"
)

// Content is the part of a post that its author writes. In an item, Data is compact, and ExpiresAt is in
// whole seconds.
type Content = messages.Content

// Image is an image of a post.
type Image = messages.Image

// Reference names the post to which a post refers.
type Reference = messages.Reference

// Data is the custom data of a post.
type Data = messages.Data

// Post is a post of an author.
type Post struct {
	ID, Author string
	Content
	Reference
	EditedAt   time.Time
	LikeShards int
	// Byline may be absent, for example in an imported post.
	Byline Byline
	// Comments is the exact number of comments (I4).
	Comments int64
	// Deleted is set if only the tombstone of the post exists. No stored post has Deleted.
	Deleted bool
}

// Byline is the part of the author's profile that a post stores, so that a home need not read the
// profile (docs/decisions/0037). Homes do not show a byline whose Name is "".
type Byline struct {
	Name, ImageURL string
	// V is the version of the profile.
	V int64
}

// BylineShown is the time after a post's creation in which homes show the post's byline. A change of
// the profile has to reach only posts younger than BylineShown.
const BylineShown = 24 * time.Hour

// maxByline is the maximum number of bytes of a byline that a post stores. A longer byline would cost
// more units to write and read than the profile.
const maxByline = 400

func (b *Byline) fields(c *codec, keep bool) *codec {
	c.str(AttrBylineName, &b.Name, keep)
	c.str(AttrBylineImg, &b.ImageURL, keep)
	c.num(AttrBylineV, &b.V, keep)
	return c
}

// Attrs encodes b. Attrs returns all attributes of b, so that they replace another byline completely.
func (b Byline) Attrs() []table.Attr {
	return b.fields(writer(), always).attrs
}

func (p *Post) fields(c *codec) *codec {
	c.str(AttrText, &p.Text, always)
	c.images(&p.Images)
	c.millis(AttrEditedAt, &p.EditedAt, optional)
	c.num(AttrComments, &p.Comments, optional)
	p.Byline.fields(c, p.Byline != (Byline{}))
	c.str(AttrPostKind, &p.Kind, optional)
	c.str(AttrData, (*string)(&p.Data), optional)
	c.mentions(&p.Mentions)
	c.reference(&p.Reference)
	c.shards(&p.LikeShards)
	c.ttl(&p.ExpiresAt)
	return c
}

// Item encodes a living post.
func (p Post) Item() table.Item {
	return table.Item{Key: PostKey(p.Author, p.ID), Attrs: p.fields(writer()).attrs}
}

// Ref returns the post by id of a living post. longest is the maximum time for which homes show any
// post. The post by id of an ended post outlives all messages of the post.
func (p Post) Ref(longest time.Duration) PostRef {
	ref := PostRef{ID: p.ID, Author: p.Author, LikeShards: p.LikeShards, RepostOf: p.RepostOf, Mentions: len(p.Mentions) > 0, End: p.ExpiresAt}
	if !p.ExpiresAt.IsZero() {
		ref.TTL = p.ExpiresAt.Add(longest + DeliveryKept)
	}
	return ref
}

// PostOfKey returns the author and the id of a post's key.
func PostOfKey(key table.Key) (author, post string, ok bool) {
	author, ok = userOf(key.PK, "#post")
	post, ok2 := PostOfSK(key.SK)
	return author, post, ok && ok2
}

// ParsePost decodes a post.
func ParsePost(it table.Item) (Post, error) {
	author, post, ok := PostOfKey(it.Key)
	if !ok {
		return Post{}, &ParseError{it.Key, "not a post"}
	}
	p := Post{ID: post, Author: author}
	p.fields(reader(it))
	return p, nil
}

// MentionsOf returns the mentioned users of a post or a comment, nil if no user is mentioned.
func MentionsOf(it table.Item) []string { return mentionsOf(it.Get(AttrMentions)) }

func mentionsOf(to table.Value) []string {
	if to.Str() == "" {
		return nil
	}
	return strings.Split(to.Str(), " ")
}

// PostRef is the post by id: a small item that each page of a fan-out reads, and each read that needs
// only the author. After a deletion, PostRef is the tombstone.
type PostRef struct {
	ID, Author string
	LikeShards int
	// Mentions reports that the post mentions users.
	Mentions bool
	// Referred means that a repost or a quote of the post may exist, or may have existed before the deletion.
	Referred bool
	// RepostOf is the original of a repost, "" for any other post.
	RepostOf string
	// End is the end of the post, zero if the post has no end. End never changes.
	End     time.Time
	Deleted bool
	// TTL is the time at which a tombstone expires, zero for never.
	TTL time.Time
	// Purged means that the purge of a tombstone's post is complete.
	Purged bool
	// Unmade means that the author deleted the id before the table had a post with it. Such a tombstone keeps only a post of this
	// author away, because any user may delete any id.
	Unmade bool
	// TakenDown, if not nil, means that a service deleted the post.
	TakenDown *TakeDown
}

// TakeDown is the deletion of a post by a service.
type TakeDown struct {
	Reason, By string
	At         time.Time
}

// Item encodes r. Only a living post is in the index of posts by time.
func (r PostRef) Item() table.Item {
	attrs := appendShards([]table.Attr{str(AttrAuthor, r.Author)}, r.LikeShards)
	if r.Mentions {
		attrs = append(attrs, num(AttrMentioning, 1))
	}
	if r.Referred {
		attrs = append(attrs, num(AttrReferred, 1))
	}
	if r.RepostOf != "" {
		attrs = append(attrs, str(AttrRepostOf, r.RepostOf))
	}
	if !r.End.IsZero() {
		attrs = append(attrs, num(AttrEnds, r.End.Unix()))
	}
	if r.Deleted {
		attrs = append(attrs, num(AttrDeleted, 1))
		if r.Purged {
			attrs = append(attrs, num(AttrPurged, 1))
		}
		if r.Unmade {
			attrs = append(attrs, num(AttrUnmade, 1))
		}
		if down := r.TakenDown; down != nil {
			attrs = append(attrs, str(AttrWhy, down.Reason), str(AttrWho, down.By), millis(AttrAsOf, down.At))
		}
	} else {
		made := PostsMadePK(BucketOf(r.ID), shardOf(r.ID, PostShards))
		attrs = append(attrs, str(table.AttrGSI1PK, made), str(table.AttrGSI1SK, PostSK(r.ID)))
	}
	return table.Item{Key: PostByIDKey(r.ID), Attrs: appendTTL(attrs, r.TTL)}
}

// Gone reports whether the post was deleted or has ended (I15). Every check that a post lives calls
// Gone.
func (r PostRef) Gone(now time.Time) bool {
	return r.Deleted || !r.End.IsZero() && !now.Before(r.End)
}

// Until returns the earlier of the post's end and a time.
func (r PostRef) Until(at time.Time) time.Time {
	if !r.End.IsZero() && r.End.Before(at) {
		return r.End
	}
	return at
}

// ParsePostRef decodes a post by id.
func ParsePostRef(it table.Item) (PostRef, error) {
	post, ok := PostOfSK(it.Key.PK)
	if !ok || it.Key.SK != SortInfo || it.Str(AttrAuthor) == "" {
		return PostRef{}, &ParseError{it.Key, "not a post by id"}
	}
	var end time.Time
	if at := it.Int(AttrEnds); at != 0 {
		end = time.Unix(at, 0).UTC()
	}
	ref := PostRef{
		End: end, ID: post, Author: it.Str(AttrAuthor), LikeShards: parseShards(it), Mentions: it.Int(AttrMentioning) != 0,
		Deleted: it.Int(AttrDeleted) != 0, TTL: ttlOf(it), Purged: it.Int(AttrPurged) != 0, Unmade: it.Int(AttrUnmade) != 0,
		RepostOf: it.Str(AttrRepostOf), Referred: it.Int(AttrReferred) != 0,
	}
	if reason := it.Str(AttrWhy); reason != "" {
		ref.TakenDown = &TakeDown{Reason: reason, By: it.Str(AttrWho), At: timeOf(&it, AttrAsOf)}
	}
	return ref, nil
}

// Comment is a comment on a post. Data has the form of a post's data.
type Comment struct {
	ID, Post, Author, Text, Data string
	Mentions                     []string
	// TTL is the end of the post, zero if the post has no end.
	TTL time.Time
}

func (m *Comment) fields(c *codec) *codec {
	c.str(AttrAuthor, &m.Author, always)
	c.str(AttrText, &m.Text, always)
	if !c.reading {
		c.attrs = append(c.attrs, str(table.AttrGSI1PK, UserCommentsPK(m.Author)), str(table.AttrGSI1SK, CommentSK(m.ID)))
	}
	c.str(AttrData, &m.Data, optional)
	c.mentions(&m.Mentions)
	c.ttl(&m.TTL)
	return c
}

// Item encodes m.
func (m Comment) Item() table.Item {
	return table.Item{Key: CommentKey(m.Post, m.ID), Attrs: m.fields(writer()).attrs}
}

// ParseComment decodes a comment from the table or from the index.
func ParseComment(it table.Item) (Comment, error) {
	rest, ok := strings.CutPrefix(it.Key.PK, "p#")
	post, ok2 := strings.CutSuffix(rest, "#comment")
	comment, ok3 := CommentOfSK(it.Key.SK)
	if !ok || !ok2 || !ok3 {
		return Comment{}, &ParseError{it.Key, "not a comment"}
	}
	m := Comment{ID: comment, Post: post}
	m.fields(reader(it))
	return m, nil
}

// Idempotency is the record of an Idempotency-Key.
type Idempotency struct {
	User, Key string
	// Post is the id of the post to which the key is bound. BodyHash is the hash of the request's body.
	Post, BodyHash string
	// LikeShards is the post's number of like shards. The record stores LikeShards so that all publishes
	// of the post have the same number.
	LikeShards int
	TTL        time.Time
}

// Item encodes r.
func (r Idempotency) Item() table.Item {
	attrs := []table.Attr{str(AttrKeyPost, r.Post), str("body", r.BodyHash), num(table.AttrTTL, r.TTL.Unix())}
	return table.Item{Key: IdempotencyKey(r.User, r.Key), Attrs: appendShards(attrs, r.LikeShards)}
}

// ParseIdempotency decodes the record of an Idempotency-Key.
func ParseIdempotency(it table.Item) (Idempotency, error) {
	user, ok := strings.CutPrefix(it.Key.PK, "idem#u#")
	if !ok || it.Str(AttrKeyPost) == "" {
		return Idempotency{}, &ParseError{it.Key, "not an idempotency record"}
	}
	return Idempotency{
		User: user, Key: it.Key.SK, Post: it.Str(AttrKeyPost), BodyHash: it.Str("body"),
		LikeShards: parseShards(it), TTL: time.Unix(it.Int(table.AttrTTL), 0).UTC(),
	}, nil
}
