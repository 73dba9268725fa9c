package admin

import (
	"context"
	"fmt"

	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/terminal"
)

// Explained names a post in a user's home. Without a post it stands for the newest posts of the user's followees.
type Explained struct{ User, Post string }

// Explain explains why posts are in a user's home, or are not.
func Explain() Op[Explained, []home.Explanation] {
	return Op[Explained, []home.Explanation]{
		Route: "GET /admin/explain/{user}",
		Params: func(in *Explained) []Param {
			return []Param{{Name: "user", At: &in.User}, {Name: "post", At: &in.Post}}
		},
		Has: func(d Domain) bool { return d.Homes != nil },
		Check: func(in Explained) error {
			if in.Post == "" {
				return CheckIDs(in.User)
			}
			return CheckIDs(in.User, in.Post)
		},
		Run: func(ctx context.Context, d Domain, in Explained) ([]home.Explanation, error) {
			return d.Homes.Explain(ctx, d.Letters, in.User, in.Post)
		},
		Command: Command[Explained, []home.Explanation]{
			Words: Words{Use: "explain USER [POST]", Short: "Say why posts are in a user's home, or are not", Long: explainHelp},
			Rows:  explainRows,
		},
	}
}

const explainHelp = `Gives the one reason why a post is in the user's home, or is not: which chunk pushed it and
when, which mark merges or hides it, where its delivery waits or died, or which newer repost
shows it. Without a post it does
so for the 20 newest posts of the user's first 1,000 followees.

It changes nothing. With FANFARE_ENGINE=aws it reads the table and the queues, else it asks
the admin address of a running fanfare up. A post takes some 14 read units,
and one for each of the next 1,100 posts of the home.`

func explainRows(all []home.Explanation) [][]string {
	rows := [][]string{{"POST", "AUTHOR", "IN HOME", "REASON"}}
	for _, e := range all {
		in := "no"
		if e.InHome {
			in = "yes"
		}
		rows = append(rows, []string{e.Post, e.Author, in, e.Text})
	}
	return rows
}

// Delivered names a post.
type Delivered struct{ Post string }

func deliveredParams(in *Delivered) []Param { return []Param{{Name: "post", At: &in.Post}} }

func (in Delivered) check() error { return CheckIDs("", in.Post) }

// Delivery returns the progress of a post.
func Delivery() Op[Delivered, delivery.Progress] {
	return Op[Delivered, delivery.Progress]{
		Route:  "GET /admin/delivery/{post}",
		Params: deliveredParams,
		Has:    func(d Domain) bool { return d.Deliveries != nil },
		Check:  Delivered.check,
		Run: func(ctx context.Context, d Domain, in Delivered) (delivery.Progress, error) {
			return d.Deliveries.AnyDelivery(ctx, in.Post)
		},
	}
}

// CheckIDs returns an error for an invalid id of a user or of a post. The user "" is valid.
func CheckIDs(user string, posts ...string) error {
	if user != "" && !id.ValidUser(user) {
		return &RefusalError{notFound, fmt.Sprintf("%s is no user id: give %s", terminal.Text(user, terminal.Sentence), id.UserGrammar)}
	}
	for _, post := range posts {
		if !id.Valid(post) {
			return &RefusalError{notFound, fmt.Sprintf("%s is no post id: give a ULID, 26 digits and capital letters", terminal.Text(post, terminal.Sentence))}
		}
	}
	return nil
}
