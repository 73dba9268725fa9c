package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"fanfare/client"
	"fanfare/internal/backoff"
)

// The demo network has a few people with names and their own posts, and a crowd. The whole crowd follows
// the first person, so that each of the first person's posts reaches many homes.
const (
	demoCrowd = 300
	// demoWriters is the number of people in the crowd who write posts: one in ten.
	demoWriters = demoCrowd / 10
	// demoChunk is the number of followers in a chunk of a delivery. It is small, so that
	// people can watch the chunks.
	demoChunk = 20
	// demoBeat is the time between two acts of the demo. Five likes are followed by one post.
	// Each seventh post is by the person with many followers.
	demoBeat = 250 * time.Millisecond
	// demoLoaders is the maximum number of concurrent calls during the load.
	demoLoaders = 16
)

// demo loads the demo network through the public API, unless the network is loaded already.
// Then demo posts and likes as people of the network until ctx ends.
func (a *app) demo(ctx context.Context, url string, log *zap.Logger) {
	base, err := client.New(url)
	if err != nil {
		log.Error("demo network not loaded", zap.Error(err))
		return
	}
	defer base.CloseIdleConnections()
	d := &demoNetwork{base: base, pictures: url + "/console/pictures/", log: log}
	again := backoff.Exponential{First: time.Second, Most: 30 * time.Second}
	loaded, err := d.load(ctx)
	for failures := 1; err != nil; failures++ { // a busy machine may refuse one of the calls
		if ctx.Err() != nil {
			return
		}
		log.Warn("demo network not loaded, trying again", zap.Error(err))
		if backoff.Wait(ctx, again.Bound(failures)) != nil {
			return
		}
		loaded, err = d.load(ctx)
	}
	if loaded {
		log.Info("demo network loaded", zap.String("try", "fanfare token ada"))
	} else {
		log.Info("demo network was loaded before")
	}
	d.live(ctx)
}

// demoNetwork calls the API as the people of the demo.
type demoNetwork struct {
	base *client.Client
	// pictures is the address below which the console has the pictures of the demo.
	pictures string
	log      *zap.Logger
}

// picture returns the address of a picture, "" for no picture.
func (d *demoNetwork) picture(name string) string {
	if name == "" {
		return ""
	}
	return d.pictures + name + ".svg"
}

// post returns a post with its pictures.
func (d *demoNetwork) post(p demoPost) client.PostInput {
	in := client.PostInput{Text: p.text}
	for _, name := range p.pictures {
		in.Images = append(in.Images, client.Image{URL: d.picture(name), Alt: demoAlt(name), Width: 640, Height: 480})
	}
	return in
}

// as returns a client of a user.
func (d *demoNetwork) as(ctx context.Context, user string) (*client.Client, error) {
	token, err := d.base.DevToken(ctx, user, 0)
	if err != nil {
		return nil, fmt.Errorf("token of %s: %w", user, err)
	}
	return d.base.AsToken(token.Token), nil
}

// load loads the network. The last post of the load belongs to the crowd's last person: if
// this post exists, the network is complete. A load that failed is repeated from the
// beginning, because each call of the load is idempotent.
func (d *demoNetwork) load(ctx context.Context) (loaded bool, err error) {
	last := demoPerson(demoCrowd - 1)
	user, err := d.as(ctx, last.id)
	if err != nil {
		return false, err
	}
	switch u, err := user.User(ctx, last.id); {
	case err == nil && u.Counts.Posts > 0:
		return false, nil
	case err != nil && !errors.Is(err, client.ErrNotFound):
		return false, err
	}
	people := demoUsers()
	named := len(people)
	for i := range demoCrowd {
		p := demoPerson(i)
		p.follows = []string{"ada", people[1+i%4].id, demoPerson((i + 1) % demoCrowd).id, demoPerson((i + 7) % demoCrowd).id}
		if p.id == demoWriter(i/10).id {
			people[0].follows = append(people[0].follows, p.id)
			p.posts = []demoPost{demoText(i / 10)}
		}
		if i == demoCrowd-1 {
			p.posts = []demoPost{{text: "Everybody is here."}}
		}
		people = append(people, p)
	}
	steps := []func(demoUser) error{
		func(u demoUser) error { return d.profile(ctx, u) },
		func(u demoUser) error { return d.follows(ctx, u) },
		func(u demoUser) error { return d.posts(ctx, u) },
	}
	for _, step := range steps { // first the people with names, so that they exist early
		if err := each(people[:named], step); err != nil {
			return false, err
		}
	}
	for _, step := range steps[:2] {
		if err := each(people, step); err != nil {
			return false, err
		}
	}
	if err := each(people[named:len(people)-1], steps[2]); err != nil {
		return false, err
	}
	return true, steps[2](people[len(people)-1])
}

// each calls do for all users, with up to demoLoaders concurrent calls, and returns one of the errors.
func each(users []demoUser, do func(demoUser) error) error {
	work, failed := make(chan demoUser), make(chan error, demoLoaders)
	var wg sync.WaitGroup
	for range demoLoaders {
		wg.Go(func() {
			var err error
			for u := range work {
				if err == nil {
					err = do(u)
				}
			}
			failed <- err
		})
	}
	for _, u := range users {
		work <- u
	}
	close(work)
	wg.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *demoNetwork) profile(ctx context.Context, u demoUser) error {
	user, err := d.as(ctx, u.id)
	if err != nil {
		return err
	}
	if _, err := user.PutMe(ctx, client.ProfileInput{Name: u.name, Bio: u.bio, ImageURL: d.picture(u.avatar)}); err != nil {
		return fmt.Errorf("profile of %s: %w", u.id, err)
	}
	return nil
}

// follows makes u follow the people who exist already. The people with names exist before the crowd.
func (d *demoNetwork) follows(ctx context.Context, u demoUser) error {
	user, err := d.as(ctx, u.id)
	if err != nil {
		return err
	}
	for _, author := range u.follows {
		if err := user.Follow(ctx, author); err != nil && !errors.Is(err, client.ErrNotFound) {
			return fmt.Errorf("%s follows %s: %w", u.id, author, err)
		}
	}
	return nil
}

// posts writes the posts of u. Some of the people with names like these posts.
func (d *demoNetwork) posts(ctx context.Context, u demoUser) error {
	user, err := d.as(ctx, u.id)
	if err != nil {
		return err
	}
	for i, p := range u.posts {
		in := d.post(p)
		in.IdempotencyKey = fmt.Sprintf("demo-%d", i)
		post, err := user.CreatePost(ctx, in)
		if err != nil {
			return fmt.Errorf("post of %s: %w", u.id, err)
		}
		for j, fan := range demoUsers() {
			if (len(p.text)+j)%3 == 0 {
				continue // posts have different numbers of likes
			}
			if err := d.like(ctx, fan.id, post.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *demoNetwork) like(ctx context.Context, fan, post string) error {
	user, err := d.as(ctx, fan)
	if err != nil {
		return err
	}
	if err := user.Like(ctx, post); err != nil {
		return fmt.Errorf("%s likes %s: %w", fan, post, err)
	}
	return nil
}

// demoRecent is the number of newest posts that the crowd still likes.
const demoRecent = 20

// live makes the crowd post and like until ctx ends. A failed call is ignored.
func (d *demoNetwork) live(ctx context.Context) {
	tick := time.NewTicker(demoBeat)
	defer tick.Stop()
	var recent []string // the ids of posts, ordered by time
	for beat := 0; ; beat++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := d.beat(ctx, beat, &recent)
		if err != nil && ctx.Err() == nil {
			d.log.Debug("the demo missed a beat", zap.Error(err))
		}
	}
}

// beat makes a member of the crowd post or like.
func (d *demoNetwork) beat(ctx context.Context, beat int, recent *[]string) error {
	if beat%6 != 0 && len(*recent) > 0 {
		// The newest posts get the most likes.
		n := len(*recent)
		return d.like(ctx, demoPerson(rand.IntN(demoCrowd)).id, (*recent)[n-1-rand.IntN(1+rand.IntN(n))])
	}
	someone := demoWriter(rand.IntN(demoWriters)).id
	if beat%42 == 0 {
		someone = "ada"
	}
	author, err := d.as(ctx, someone)
	if err != nil {
		return err
	}
	post, err := author.CreatePost(ctx, d.post(demoText(rand.IntN(1<<16))))
	if err != nil {
		return fmt.Errorf("post of %s: %w", someone, err)
	}
	*recent = append(*recent, post.ID)
	*recent = slices.Delete(*recent, 0, max(0, len(*recent)-demoRecent))
	return nil
}
