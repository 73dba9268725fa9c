package likeagg

import (
	"context"
	"fmt"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

const (
	// lateLike is the age from which a Liked may belong to a former life: its user may have been
	// removed since, and the removal may have had its last look (docs/decisions/0030).
	lateLike = 50 * time.Minute
	// judged is the time for which an answer about the life of a user is valid. lateLike and judged together
	// are one hour, after which a removal has its last look.
	judged = 10 * time.Minute
)

// mayBeOver reports whether the life of an action's user has to be read. A repost counts until its own deletion.
func (w *window) mayBeOver(a *action) bool {
	at, err := id.Time(a.version) // attempt refuses a version without a time
	return err == nil && a.kind != "" && !messages.IsReposter(a.user) && !w.cfg.AnyAge && w.cfg.Now().Sub(at) >= lateLike && time.Since(a.judged) >= judged
}

// ofFormerLife reports whether an action is a like of a user's former life. Such a like counts as
// taken back: a backlog must not restore anything of the former life. An Unliked is always applied,
// since the removal may have sent it.
func (w *window) ofFormerLife(ctx context.Context, a *action) (former bool, err error) {
	if !w.mayBeOver(a) {
		return false, nil
	}
	profile, note := schema.ProfileKey(a.user), schema.ForgottenKey(a.user)
	began := time.Now()
	res, err := w.cfg.Store.BatchGet(ctx, table.BatchGetInput{Keys: []table.Key{profile, note}, Consistent: true})
	if err != nil {
		return false, fmt.Errorf("read the user of a like: %w", err)
	}
	user, _, err := schema.ParseUser(res.Items)
	if err != nil {
		return false, err
	}
	a.judged = began
	return schema.OfFormerLife(user, schema.NoteOf(a.user, res.Items), a.version), nil
}
