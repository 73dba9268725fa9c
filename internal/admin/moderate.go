package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"fanfare/client"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/removal"
	"fanfare/internal/terminal"
)

// Shown reads posts and users as the API shows them to a reader.
type Shown interface {
	Post(ctx context.Context, post string) (client.PostView, error)
	User(ctx context.Context, user string) (client.User, error)
	// Posts returns a page of a user's posts, newest first. The last page has no next cursor.
	Posts(ctx context.Context, user, cursor string) (posts []client.PostView, next string, err error)
}

// ShownPost is a post for an operator. A post that is gone has only its delivery, which has the reason.
type ShownPost struct {
	View     *client.PostView  `json:"view,omitempty"`
	Delivery delivery.Progress `json:"delivery"`
}

// ShowPost returns a post as a reader sees the post, and its delivery.
func ShowPost() Op[Delivered, ShownPost] {
	return Op[Delivered, ShownPost]{
		Route: "GET /admin/posts/{post}", Params: deliveredParams,
		Has:   func(d Domain) bool { return d.Shown != nil && d.Deliveries != nil },
		Check: Delivered.check,
		Run: func(ctx context.Context, d Domain, in Delivered) (out ShownPost, err error) {
			if out.Delivery, err = d.Deliveries.AnyDelivery(ctx, in.Post); err != nil {
				return out, err
			}
			view, err := d.Shown.Post(ctx, in.Post)
			if isGone(err) {
				return out, nil
			}
			out.View = &view
			return out, err
		},
	}
}

// Looking names a user, and a page of the user's posts.
type Looking struct{ User, Cursor string }

// ShownUser is a user with a page of posts, as a reader sees both.
type ShownUser struct {
	User  client.User       `json:"user"`
	Posts []client.PostView `json:"posts"`
	Next  string            `json:"next_cursor,omitempty"`
}

// ShowUser returns a user as a reader sees the user.
func ShowUser() Op[Looking, ShownUser] {
	return Op[Looking, ShownUser]{
		Route: "GET /admin/users/{user}",
		Params: func(in *Looking) []Param {
			return []Param{{Name: "user", At: &in.User}, {Name: "cursor", At: &in.Cursor}}
		},
		Has:   func(d Domain) bool { return d.Shown != nil },
		Check: func(in Looking) error { return CheckIDs(in.User) },
		Run: func(ctx context.Context, d Domain, in Looking) (out ShownUser, err error) {
			if out.User, err = d.Shown.User(ctx, in.User); err != nil {
				return out, err
			}
			out.Posts, out.Next, err = d.Shown.Posts(ctx, in.User, in.Cursor)
			return out, err
		},
	}
}

// TakingDown is the deletion of a post by an operator, with the reason for the author.
type TakingDown struct {
	Post   string `json:"-"`
	Reason string `json:"reason"`
}

// TakeDown deletes a post of any user, as a service does by the API. The first reason stays.
func TakeDown() Op[TakingDown, delivery.TakenDown] {
	return Op[TakingDown, delivery.TakenDown]{
		Name: "takedown", Route: "POST /admin/posts/{post}/takedown", Form: `{"reason": "…"}`,
		Params: func(in *TakingDown) []Param {
			return []Param{{Name: "post", At: &in.Post}, {"reason", &in.Reason, "the reason, one line: the author sees it"}}
		},
		Has: func(d Domain) bool { return d.Posts != nil },
		Check: func(in TakingDown) error {
			if err := CheckIDs("", in.Post); err != nil {
				return err
			}
			if fault := feed.ReasonFault(in.Reason); fault != "" {
				return invalid("reason %s", fault)
			}
			return nil
		},
		Run: func(ctx context.Context, d Domain, in TakingDown) (delivery.TakenDown, error) {
			down, err := d.Posts.TakeDown(ctx, feed.Operator, in.Post, in.Reason)
			return delivery.TakenDown(down), err
		},
		Note: func(in TakingDown, down delivery.TakenDown) (changed int, fields []zap.Field) {
			if !down.At.IsZero() {
				changed = 1
			}
			return changed, []zap.Field{zap.String("post_id", in.Post)}
		},
		Command: Command[TakingDown, delivery.TakenDown]{
			Words: Words{Use: "takedown POST", Short: "Take a post of any user down, with a reason", Long: takeDownHelp},
			Ask: func(ctx context.Context, at Process, in TakingDown) (string, error) {
				seen, err := ShowPost().Do(ctx, at, Delivered{in.Post})
				if err != nil || seen.View == nil {
					return fmt.Sprintf("Post %s is gone. ", in.Post), err
				}
				return fmt.Sprintf("The post of %s will be deleted for good: %s\n", seen.View.Post.AuthorID, terminal.Text(seen.View.Post.Text, terminal.Sentence)), nil
			},
			Text: func(down delivery.TakenDown) string {
				return fmt.Sprintf("%s took the post down at %s: %s", down.By, down.At.UTC().Format(time.RFC3339), terminal.Text(down.Reason, terminal.Sentence))
			},
		},
	}
}

const takeDownHelp = `Deletes a post of any user for good, with its comments and likes. The author sees the reason in the
delivery of the post. The first reason stays: a repetition prints it. The person who took the post down
is in the log.

With FANFARE_ENGINE=aws it writes the table, which needs the policy of api; else it asks the admin
address of a running fanfare up.`

// Forgetting is the removal of a user.
type Forgetting struct {
	User string `json:"-"`
	// UnknownOK removes the records under an id that has no user and had none.
	UnknownOK bool `json:"unknown_ok,omitempty"`
	// DryRun removes nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Progress, if not nil, gets the number of removed records, in a process that does the operation itself.
	Progress func(removed int) `json:"-"`
}

// Forgotten is a removed user.
type Forgotten struct {
	User    string            `json:"user_id"`
	Was     removal.Knowledge `json:"was"`
	Removed int               `json:"removed"`
	// LikesStay means that likes are not removed, because there is no index of the user's likes.
	LikesStay bool `json:"likes_stay"`
}

// Forget removes a user, and all that the user made. Package main has its command, which may also open a data directory.
func Forget() Op[Forgetting, Forgotten] {
	return Op[Forgetting, Forgotten]{
		Name: "forget", Route: "POST /admin/users/{user}/forget", Form: `{} or {"unknown_ok": true}`,
		Params: func(in *Forgetting) []Param { return []Param{{Name: "user", At: &in.User}} },
		Has:    func(d Domain) bool { return d.Removals != nil }, Long: true,
		Check: func(in Forgetting) error { return CheckIDs(in.User) },
		Run: func(ctx context.Context, d Domain, in Forgetting) (out Forgotten, err error) {
			out = Forgotten{User: in.User, LikesStay: !d.LikesByUser}
			out.Was, err = d.Removals.Remembered(ctx, in.User)
			if err == nil && out.Was == removal.Unknown && !in.UnknownOK {
				err = &RefusalError{notFound, fmt.Sprintf("there is no user %s, and none was removed: check the id, or remove the rest of a user without a profile with --unknown-ok", in.User)}
			}
			if err != nil || in.DryRun {
				return out, err
			}
			err = d.Removals.Remove(ctx, in.User, func(removed int) {
				out.Removed = removed
				if in.Progress != nil {
					in.Progress(removed)
				}
			})
			return out, err
		},
		Note: func(in Forgetting, out Forgotten) (int, []zap.Field) {
			if in.DryRun {
				return 0, nil
			}
			return out.Removed, []zap.Field{zap.String("user_id", in.User), zap.String("was", string(out.Was)), zap.Int("removed", out.Removed)}
		},
	}
}

// isGone reports whether err means that a record does not exist.
func isGone(err error) bool {
	cause, ok := errors.AsType[*fault.Error](err)
	return ok && cause.Kind == fault.NotFound
}
