package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"fanfare/bench/plain"
)

// These are the names of the baselines, with the promises that the baselines lack.
const (
	pagesOnRedis = "put together from Redis"
	likesOnRedis = "a set and a count in Redis, by a script"
	postsInSQL   = "one transaction of PostgreSQL"

	pagesPromiseLess = "the baseline's CPU is that of its server and of Redis: a token is not checked, a crash loses a second, every home stays in memory, and it hides neither deleted posts nor authors unfollowed meanwhile"
	likesPromiseLess = "the baseline's CPU is that of its server and of Redis: a token is not checked, a crash loses up to a second of answered likes, every like stays in memory, and it has no list of a user's likes"
	postsPromiseLess = "the baseline's CPU is that of its server and of PostgreSQL: as durable, and in the homes when it is answered, but a post to a million followers is one transaction; a token is not checked, and a request that is sent again makes another post"
)

// plainCommand runs an application of package plain. Benchmarks start it as a process.
func plainCommand(stdout io.Writer) *cobra.Command {
	var onRedis, onPostgres string
	c := &cobra.Command{Use: "plain", Short: "Run a baseline's application", Hidden: true, Args: cobra.NoArgs}
	c.Flags().StringVar(&onRedis, "redis", "", "`ADDRESS` of Redis")
	c.Flags().StringVar(&onPostgres, "postgres", "", "`CONNECTION` to PostgreSQL")
	c.MarkFlagsOneRequired("redis", "postgres")
	c.MarkFlagsMutuallyExclusive("redis", "postgres")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if onRedis != "" {
			db := redis.NewClient(&redis.Options{Addr: onRedis})
			return errors.Join(plain.Serve(c.Context(), plain.OnRedis(db), stdout), db.Close())
		}
		db, err := pgxpool.New(c.Context(), onPostgres)
		if err != nil {
			return err
		}
		defer db.Close()
		return plain.Serve(c.Context(), plain.OnPostgres(db), stdout)
	}
	return c
}

// plainApp is an application of package plain in its own process, together with its store.
type plainApp struct {
	process
	http string
	// store is the process id of Redis or PostgreSQL.
	store     int
	stopStore func() error
}

// startPlain starts an application on a running store. If it fails, it stops the store.
func (e *env) startPlain(ctx context.Context, store int, stopStore func() error, args ...string) (*plainApp, error) {
	p, err := start(nil, e.Self, append([]string{"plain"}, args...)...)
	if err != nil {
		return nil, errors.Join(err, stopStore())
	}
	a := &plainApp{process: p, store: store, stopStore: stopStore}
	defer context.AfterFunc(ctx, func() {
		_ = p.cmd.Process.Kill() // the kill ends the wait for the first line of the process
	})()
	line, err := p.out.ReadString('\n')
	if a.http = strings.TrimSpace(line); err != nil {
		return nil, fmt.Errorf("a baseline is not ready: %w", ctxErr(ctx, errors.Join(err, a.stop())))
	}
	return a, nil
}

func (a *plainApp) address() string { return a.http }

func (a *plainApp) stop() error { return errors.Join(a.process.stop(), a.stopStore()) }

// usage returns the CPU time of application and store, and the heap of the application.
func (a *plainApp) usage(ctx context.Context) (usage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.http+"/heap", http.NoBody)
	if err != nil {
		return usage{}, err
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return usage{}, err
	}
	defer res.Body.Close()
	var heap plain.Heap
	if err := json.NewDecoder(res.Body).Decode(&heap); err != nil {
		return usage{}, fmt.Errorf("read the heap of a baseline: %w", err)
	}
	app, err := cpuOf(a.pid())
	if err != nil {
		return usage{}, err
	}
	store, err := cpuOfFamily(a.store)
	return usage{at: time.Now(), cpu: app + store, allocs: heap.Allocs, allocBytes: heap.AllocBytes, loader: ownUsage().cpu}, err
}

// names returns the users of a graph. In the baselines a user's id is also the user's token.
func (g graph) names() []string {
	names := make([]string, g.users)
	for i := range names {
		names[i] = g.name(i)
	}
	return names
}

func (g graph) pairs(yield func(follower, author string) bool) {
	g.follows(func(f follow) bool { return yield(f.follower, f.author) })
}

// redisApp starts Redis with the users and followers of g, and the application on Redis. It returns nil
// if Redis is not installed.
func (e *env) redisApp(ctx context.Context, dir string, g graph) (*plainApp, error) {
	r, err := e.startRedis(ctx, dir, 0)
	if r == nil || err != nil {
		return nil, err
	}
	db := redis.NewClient(&redis.Options{Addr: r.address})
	err = plain.LoadRedis(ctx, db, g.names(), g.pairs)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return e.startPlain(ctx, r.cmd.Process.Pid, r.stop, "--redis", r.address)
}

// measure runs the baseline, unless a is nil, and then stops the application.
func (a *plainApp) measure(run func() error) error {
	if a == nil {
		return nil
	}
	return errors.Join(run(), a.stop())
}

// redisPages reads homes that an application builds from Redis, as T17 reads Fanfare's homes. The cost is
// nil if Redis is not installed.
func (e *env) redisPages(ctx context.Context, dir string, conns int, period time.Duration) (*Cost, error) {
	a, err := e.redisApp(ctx, dir, ring())
	if err != nil {
		return nil, err
	}
	var pages *Cost
	err = a.measure(func() error {
		users := ring().names()
		for range 2 { // a user gets more posts than a page has, as in T17
			if err := e.postOnce(ctx, a, users, &recent{}); err != nil {
				return err
			}
		}
		e.say("read homes %s", pagesOnRedis)
		cost, _, err := e.load(ctx, a, conns, period, 1<<30, func(c *caller, i int) error {
			return c.want(http.StatusOK, nil, http.MethodGet, "/v1/home?limit=20", users[i*7919%homeUsers], nil)
		})
		pages = &cost
		return errors.Join(err, fullPages(a.http, users))
	})
	return pages, err
}

// fullPages returns an error unless the homes of some users have 20 posts, newest first.
func fullPages(host string, users []string) (err error) {
	c, err := dial(host)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for i := 0; i < len(users); i += 100 {
		var page homeReply
		if err := c.want(http.StatusOK, &page, http.MethodGet, "/v1/home?limit=20", users[i], nil); err != nil {
			return err
		}
		var ids []string
		for _, item := range page.Items {
			ids = append(ids, item.Post.ID)
		}
		slices.Reverse(ids)
		if len(slices.Compact(ids)) != 20 {
			return fmt.Errorf("the home of %s at the baseline has %d posts, want 20", users[i], len(ids))
		}
	}
	return nil
}

// redisReads reads homes at T10's rates, under the same load of posts and likes on Redis.
// The latency is nil if Redis is not installed.
func (e *env) redisReads(ctx context.Context, dir string) (reads *Latency, cost Cost, err error) {
	a, err := e.redisApp(ctx, dir, ring())
	if err != nil {
		return nil, cost, err
	}
	err = a.measure(func() error {
		var posts recent
		users := ring().names()
		err := e.postOnce(ctx, a, users, &posts)
		if err != nil {
			return err
		}
		reads, cost, err = e.readHomes(ctx, a, users, &posts, true)
		return errors.Join(err, fullPages(a.http, users))
	})
	return reads, cost, err
}

// redisLikes counts likes in Redis, as T18 counts likes in Fanfare. The cost is nil if Redis is not
// installed.
func (e *env) redisLikes(ctx context.Context, dir string, conns int, period time.Duration, g graph) (*Cost, error) {
	a, err := e.redisApp(ctx, dir, g)
	if err != nil {
		return nil, err
	}
	var likes *Cost
	err = a.measure(func() (err error) {
		c, err := dial(a.http)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		post, err := c.post(g.name(0), "hello, everybody")
		if err != nil {
			return err
		}
		e.say("likes: %s", likesOnRedis)
		path := "/v1/posts/" + post
		cost, _, err := e.load(ctx, a, conns, period, g.users, func(c *caller, i int) error {
			return c.want(http.StatusAccepted, nil, http.MethodPut, path+"/like", g.name(i), nil)
		})
		if err != nil {
			return err
		}
		likes = &cost
		var reply struct {
			Count int64 `json:"count"`
		}
		err = c.want(http.StatusOK, &reply, http.MethodGet, path+"/likes/count", g.name(0), nil)
		if err == nil && reply.Count != cost.Units {
			err = fmt.Errorf("the baseline counts %d likes, want %d", reply.Count, cost.Units)
		}
		return err
	})
	return likes, err
}

// postgresPosts makes posts in PostgreSQL, as T12 makes posts in Fanfare. The cost is nil if PostgreSQL
// is not installed.
func (e *env) postgresPosts(ctx context.Context, dir string, conns int, period time.Duration, g graph) (_ *Cost, times *hdrhistogram.Histogram, err error) {
	p, connection, err := e.startPostgres(ctx, dir)
	if p == nil || err != nil {
		return nil, nil, err
	}
	db, err := pgxpool.New(ctx, connection)
	if err == nil {
		err = plain.LoadPostgres(ctx, db, g.names(), g.pairs)
	}
	if err != nil {
		db.Close()
		return nil, nil, errors.Join(err, p.stop())
	}
	defer db.Close()
	a, err := e.startPlain(ctx, p.pid(), func() error { db.Close(); return p.stop() }, "--postgres", connection)
	if err != nil {
		return nil, nil, err
	}
	var cost Cost
	err = a.measure(func() error {
		e.say("posts: %s", postsInSQL)
		if cost, times, err = e.load(ctx, a, conns, period, 1<<30, func(c *caller, i int) error {
			_, err := c.post(g.name(i%g.users), "hello, follower")
			return err
		}); err != nil {
			return err
		}
		var posts, entries int64
		err := db.QueryRow(ctx, `SELECT (SELECT count(*) FROM posts), (SELECT count(*) FROM homes)`).Scan(&posts, &entries)
		if err == nil && (posts != cost.Units || entries != 2*posts) {
			err = fmt.Errorf("the baseline has %d posts and %d entries, want %d and twice as many", posts, entries, cost.Units)
		}
		return err
	})
	return &cost, times, err
}

// startPostgres starts a PostgreSQL with its default settings, on a socket in its own directory.
// PostgreSQL refuses to run as root, so root runs PostgreSQL as the user that Debian's package created.
// The process is nil if PostgreSQL is not installed.
func (e *env) startPostgres(ctx context.Context, dir string) (_ *process, connection string, err error) {
	initdb, server := postgresPrograms()
	if server == "" {
		e.say("PostgreSQL is not installed (Debian: apt-get install postgresql): not compared")
		return nil, "", nil
	}
	data := filepath.Join(dir, "postgres")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, "", err
	}
	as, err := unprivileged(data, e.dir, dir)
	if err != nil {
		return nil, "", err
	}
	init := exec.CommandContext(ctx, initdb, "--pgdata", data, "--auth", "trust", "--username", "bench", "--no-sync", "--encoding", "UTF8", "--locale", "C")
	init.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: as}
	init.Dir = data
	if out, err := init.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("make a PostgreSQL: %w: %.500s", ctxErr(ctx, err), out)
	}
	p, err := startAs(as, nil, server, "-D", data, "-k", data, "-c", "listen_addresses=")
	if err != nil {
		return nil, "", err
	}
	connection = fmt.Sprintf("host=%s user=bench dbname=postgres pool_max_conns=32", data)
	db, err := pgxpool.New(ctx, connection)
	if err != nil {
		return nil, "", errors.Join(err, p.stop())
	}
	defer db.Close()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if err = db.Ping(ctx); err == nil {
			return &p, connection, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, "", errors.Join(ctx.Err(), p.stop())
		}
		if time.Now().After(deadline) {
			return nil, "", errors.Join(fmt.Errorf("PostgreSQL does not answer: %w", err), p.stop())
		}
	}
}

// postgresPrograms finds initdb and postgres, which Debian keeps outside of the PATH.
func postgresPrograms() (initdb, server string) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		path, err := exec.LookPath("initdb")
		if err != nil {
			return "", ""
		}
		found = []string{path}
	}
	initdb = found[len(found)-1]
	return initdb, filepath.Join(filepath.Dir(initdb), "postgres")
}

// unprivileged gives data to a user without rights, and returns this user. The user may pass the
// directories above data. unprivileged returns nil if this process does not run as root.
func unprivileged(data string, above ...string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil is the user of this process
	}
	u, err := osuser.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	for _, dir := range above {
		if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the user may pass the directory, but not list it
			return nil, err
		}
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(data, uid, gid)
}
