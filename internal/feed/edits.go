package feed

import (
	"cmp"
	"context"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// editedField is an attribute with its new value, nil for no change.
type editedField struct {
	attr  string
	value *string
}

func (e *PostEdit) fields() []editedField {
	var images *string
	if e.Images != nil {
		images = new(messages.ImagesText(*e.Images))
	}
	return []editedField{{schema.AttrText, e.Text}, {schema.AttrImages, images}, {schema.AttrData, e.Data}}
}

// EditPost changes a post by user. EditPost writes one item, because all other items refer to that
// item.
func (s *Service) EditPost(ctx context.Context, user, post string, edit PostEdit) (Post, error) {
	if err := edit.validate(); err != nil {
		return Post{}, err
	}
	byID, err := s.ownPost(ctx, user, post)
	if err != nil {
		return Post{}, err
	}
	if err := access.NotRepost(byID); err != nil {
		return Post{}, err
	}
	var edited Post
	err = s.access.RetryChanged(func() (changed bool, err error) {
		edited, changed, err = s.edit(ctx, byID, edit)
		return changed, err
	})
	return edited, err
}

// edit makes one attempt of EditPost. changed reports that another edit changed the field that would have
// remained in the post.
func (s *Service) edit(ctx context.Context, byID schema.PostRef, edit PostEdit) (edited Post, changed bool, err error) {
	key := schema.PostKey(byID.Author, byID.ID)
	remains, err := s.remains(ctx, byID.Author, key, edit)
	if err != nil {
		return Post{}, false, err
	}
	up := table.UpdateInput{
		Key: key,
		Set: []table.Attr{{Name: schema.AttrEditedAt, Value: table.N(s.access.Now().UnixMilli())}},
		// If the post was deleted after the read, the deletion wins (I2).
		If:        append(table.All{table.Exists{}}, remains...),
		ReturnNew: true,
	}
	for _, f := range edit.fields() {
		switch {
		case f.value == nil:
		case *f.value == "" && f.attr != schema.AttrText:
			up.Remove = append(up.Remove, f.attr)
		default:
			up.Set = append(up.Set, table.Attr{Name: f.attr, Value: table.S(*f.value)})
		}
	}
	res, err := s.access.Store.Update(ctx, up)
	if access.ConditionFailed(err) {
		if len(remains) == 0 {
			err = wasDeleted(key)
		}
		return Post{}, len(remains) > 0, err
	}
	noted := s.noteEdit(ctx, byID) // a failed update may have happened
	if err = cmp.Or(err, noted); err != nil {
		return Post{}, false, fault.Wrap("table", err)
	}
	p, err := schema.ParsePost(*res.Item) //nolint:forbidigo // the author has just written the post
	if err != nil {
		return Post{}, false, fault.Wrap("table", err)
	}
	return postOf(access.OwnPost(p)), false, nil
}

// remains returns the condition that a field remains in the post, by which the post still shows something.
// An edit that removes nothing, or that gives a field, needs no condition and no read.
func (s *Service) remains(ctx context.Context, author string, key table.Key, edit PostEdit) ([]table.Cond, error) {
	removes, gives := false, false
	for _, f := range edit.fields() {
		removes = removes || f.value != nil && *f.value == ""
		gives = gives || f.value != nil && *f.value != ""
	}
	if !removes || gives {
		return nil, nil
	}
	found, err := s.access.Posts(ctx, access.As(author), []table.Key{key})
	if err != nil {
		return nil, err
	}
	if !found.Has(key) {
		return nil, wasDeleted(key)
	}
	for _, f := range edit.fields() {
		if text, _ := found.Attr(key, f.attr); f.value == nil && text != "" {
			return []table.Cond{table.Equal{Name: f.attr, Value: table.S(text)}}, nil
		}
	}
	var c checks
	c.refuse("text", "would be empty, and the post would have no image and no data")
	return nil, c.err()
}

func wasDeleted(key table.Key) error {
	post, _ := schema.PostOfSK(key.SK)
	return fault.NotFoundf("post %s was deleted", post)
}
