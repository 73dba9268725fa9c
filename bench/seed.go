package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fanfare/internal/datadir"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/embedded"
)

// follow is one edge of a graph.
type follow struct{ follower, author string }

// graph is the content of a new data directory: users and their follows.
type graph struct {
	users   int
	name    func(int) string
	follows func(yield func(follow) bool)
}

// seed makes a data directory that holds g as the API would have stored g: profiles, both edges of each
// follow, and the counts. seed writes to the table directly, because a million follows over HTTP take
// minutes.
func seed(ctx context.Context, dir string, g graph) (err error) {
	data, err := datadir.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	store, err := embedded.Create(data.Path("table"), embedded.Options{SweepEvery: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return seedTable(ctx, store, g)
}

func seedTable(ctx context.Context, store table.Store, g graph) error {
	l := loader{ctx: ctx, store: store}
	now := time.Now()
	// All readers have visited today. Otherwise the first home read of each reader would date the
	// reader's edges, and T15 measures this cost.
	until := schema.DayOf(now) + defaultActiveDays
	for i := range g.users {
		l.put(schema.Profile{User: g.name(i), Name: "User " + g.name(i), CreatedAt: now}.Item())
	}
	followers, following := map[table.Key]int64{}, map[string]int64{}
	for f := range g.follows {
		l.put(schema.DatedFollowerItem(f.author, f.follower, now, until))
		l.put(schema.FollowingItem(f.follower, f.author, now, id.Min))
		followers[schema.FollowerCountKey(f.author, f.follower)]++
		following[f.follower]++
	}
	for key, n := range followers {
		l.put(table.Item{Key: key, Attrs: []table.Attr{{Name: schema.AttrN, Value: table.N(n)}}})
	}
	for user, n := range following {
		l.put(schema.Presence{User: user, State: schema.PresenceHere, Until: until}.Item())
		l.put(table.Item{Key: schema.CountsKey(user), Attrs: []table.Attr{
			{Name: schema.AttrFollowing, Value: table.N(n)}, {Name: schema.AttrUptoDay, Value: table.N(int64(until))},
		}})
	}
	l.flush()
	if l.err != nil {
		return fmt.Errorf("load the graph: %w", l.err)
	}
	return nil
}

// tempTable opens an embedded table for one step. The caller calls the returned function to remove the
// table.
func (e *env) tempTable() (*embedded.Store, func() error, error) {
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, nil, err
	}
	store, err := embedded.Create(dir, embedded.Options{SweepEvery: -1})
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return store, func() error { return errors.Join(store.Close(), remove()) }, nil
}

// seeded starts a server whose data directory holds g, and calls do with the tokens of the users of g. do
// may make other files in dir.
func (e *env) seeded(ctx context.Context, g graph, do func(dir string, s *server, tokens []string) error) (err error) {
	dir, remove, err := e.tempDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	e.say("load %d users", g.users)
	if err := seed(ctx, dir+"/fanfare", g); err != nil {
		return err
	}
	s, err := e.up(ctx, dir+"/fanfare")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	tokens, err := s.tokensOf(g.users)
	if err != nil {
		return err
	}
	return do(dir, s, tokens)
}

// loader writes items in large batches. After an error it writes nothing.
type loader struct {
	ctx   context.Context //nolint:containedctx // a loader lives for one call
	store table.Store
	items []table.Item
	err   error
}

const loadBatch = 5000

// defaultActiveDays is the default of FANFARE_ACTIVE_DAYS.
const defaultActiveDays = 14

func (l *loader) put(it table.Item) {
	if l.items = append(l.items, it); len(l.items) == loadBatch {
		l.flush()
	}
}

func (l *loader) flush() {
	if l.err != nil || len(l.items) == 0 {
		return
	}
	writes := make([]table.BatchWrite, len(l.items))
	for i := range l.items {
		writes[i].Put = &l.items[i]
	}
	_, l.err = l.store.BatchWrite(l.ctx, writes)
	l.items = l.items[:0]
}

// star returns a graph of one celebrity with followers.
func star(followers int) graph {
	return graph{
		users: followers + 1,
		name: func(i int) string {
			if i == followers {
				return author
			}
			return user(i)
		},
		follows: func(yield func(follow) bool) {
			for i := range followers {
				if !yield(follow{user(i), author}) {
					return
				}
			}
		},
	}
}

func user(i int) string { return fmt.Sprintf("user-%07d", i) }
