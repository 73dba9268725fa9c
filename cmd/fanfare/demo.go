package main

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"fanfare/client"
)

// demoUsers returns the users of the demo, with their follows and posts.
func demoUsers() []demoUser {
	return []demoUser{
		{"ada", "Ada Lovelace", "Notes on the Analytical Engine.", []string{"grace", "alan", "katherine"},
			[]string{"The Analytical Engine weaves algebraic patterns, just as the loom weaves flowers and leaves.", "Note G is done. It computes Bernoulli numbers."}},
		{"grace", "Grace Hopper", "Compilers, and nanoseconds of wire.", []string{"ada", "margaret"},
			[]string{"Found a moth in relay 70, panel F. Taped it into the log book.", "A ship in port is safe, but that is not what ships are for."}},
		{"alan", "Alan Turing", "Machines that may think.", []string{"ada", "grace", "katherine"},
			[]string{"We can only see a short distance ahead, but we can see plenty there that needs to be done."}},
		{"katherine", "Katherine Johnson", "Trajectories, checked by hand.", []string{"margaret", "ada"},
			[]string{"The computer's numbers agree with mine. You can go."}},
		{"margaret", "Margaret Hamilton", "Software that must not fail.", []string{"grace", "katherine", "ada"},
			[]string{"1202 is only the computer saying it drops what matters less. Go on.", "There was no second chance. We all knew that."}},
	}
}

type demoUser struct {
	id, name, bio string
	follows       []string
	posts         []string
}

// demo loads the demo network through the public API, unless it is loaded already.
func (a *app) demo(ctx context.Context, url string, log *zap.Logger) {
	switch loaded, err := loadDemo(ctx, url); {
	case errors.Is(err, context.Canceled):
	case err != nil:
		log.Error("demo network not loaded", zap.Error(err))
	case loaded:
		log.Info("demo network loaded", zap.String("try", "fanfare token ada"))
	default:
		log.Info("demo network was loaded before")
	}
}

func loadDemo(ctx context.Context, url string) (loaded bool, err error) {
	base, err := client.New(url)
	if err != nil {
		return false, err
	}
	defer base.CloseIdleConnections()
	users := demoUsers()
	as := map[string]*client.Client{}
	for _, u := range users {
		token, err := base.DevToken(ctx, u.id, 0)
		if err != nil {
			return false, fmt.Errorf("token of %s: %w", u.id, err)
		}
		as[u.id] = base.AsToken(token.Token)
	}
	// The last user's posts are written last: if they exist, everything does. A load
	// that was cut short is repeated, because each of its calls is idempotent.
	last := users[len(users)-1]
	switch u, err := as[last.id].User(ctx, last.id); {
	case err == nil && u.Counts.Posts > 0:
		return false, nil
	case err != nil && !errors.Is(err, client.ErrNotFound):
		return false, err
	}
	for _, u := range users {
		if _, err := as[u.id].PutMe(ctx, client.ProfileInput{Name: u.name, Bio: u.bio}); err != nil {
			return false, fmt.Errorf("profile of %s: %w", u.id, err)
		}
	}
	for _, u := range users {
		for _, author := range u.follows {
			if err := as[u.id].Follow(ctx, author); err != nil {
				return false, fmt.Errorf("%s follows %s: %w", u.id, author, err)
			}
		}
	}
	var posts []string
	for _, u := range users {
		for i, text := range u.posts {
			post, err := as[u.id].CreatePost(ctx, client.PostInput{Text: text, IdempotencyKey: fmt.Sprintf("demo-%d", i)})
			if err != nil {
				return false, fmt.Errorf("post of %s: %w", u.id, err)
			}
			posts = append(posts, post.ID)
		}
	}
	for i, post := range posts {
		for j, u := range users {
			if (i+j)%3 == 0 {
				continue // so that the counts differ
			}
			if err := as[u.id].Like(ctx, post); err != nil {
				return false, fmt.Errorf("%s likes %s: %w", u.id, post, err)
			}
		}
	}
	return true, nil
}
