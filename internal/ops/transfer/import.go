package transfer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/backoff"
	"fanfare/internal/clock"
	"fanfare/internal/fanout"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Config has the parts and settings of a transfer. The settings must be equal to the
// settings of the daemons on the same table.
type Config struct {
	Store table.Store
	Now   func() time.Time
	// Clock, if not nil, reports when Now is too uncertain to decide by age.
	Clock *clock.Clock
	// TTL is the time for which homes show posts. If the table has a stored TTL, the stored
	// TTL is used instead.
	TTL          time.Duration
	LikeWindow   time.Duration
	LikesByUser  bool
	PushLimit    int64
	ActiveDays   int
	MaxFollowing int64
	// Writers and PageSize are passed to package fanout.
	Writers, PageSize int
	// AtOnce is the number of records that are written at the same time. The default is 64.
	AtOnce int
	// Rate is the maximum number of write units a second, 0 for no limit.
	Rate float64
	// IDs makes the ids of an import's marks. The default makes ids of Now and crypto/rand.
	IDs *id.Generator
	// Random, if not nil, decides the waits of retries and the names of aggregators. Several
	// goroutines may call Random at the same time.
	Random func() uint64
	// Progress, if not nil, is called often with the state of the current phase.
	Progress func(Progress)
	Log      *zap.Logger
}

func (c Config) withDefaults() Config {
	if c.AtOnce <= 0 {
		c.AtOnce = 64
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.IDs == nil {
		c.IDs = id.NewGenerator(c.Now)
	}
	return c
}

// Imported is the result of an import.
type Imported struct {
	Users     int `json:"users"`
	Follows   int `json:"follows"`
	Mutes     int `json:"mutes"`
	Blocks    int `json:"blocks"`
	Posts     int `json:"posts"`
	Comments  int `json:"comments"`
	Likes     int `json:"likes"`
	Bookmarks int `json:"bookmarks"`
	Markers   int `json:"markers"`
	// Entries is the number of timeline entries that were found in followers' homes.
	Entries int `json:"entries"`
	// WCU is the number of write units of the import.
	WCU float64 `json:"wcu"`
	// DeliverySeconds is the duration of writing the posts and delivering them.
	DeliverySeconds float64 `json:"delivery_seconds"`
	Seconds         float64 `json:"seconds"`
}

// importer is one import.
type importer struct {
	cfg    Config
	files  []string
	index  *index
	store  table.Store
	lives  *lifetime.View
	feed   *feed.Service
	worker *fanout.Worker
	spent  meter
}

// Import writes the records of files into the table, and checks that the table has all of
// these records. If the files have faults, Import writes nothing and returns an
// *InvalidError. An import may be repeated: existing records do not change.
func Import(ctx context.Context, cfg Config, files []string) (Imported, error) {
	cfg = cfg.withDefaults()
	began := time.Now()
	im := &importer{cfg: cfg, files: files}
	im.store = table.MeasureContext(cfg.Store, im.pay(ctx))
	var err error
	if im.index, err = read(ctx, table.HideExpired(cfg.Store, cfg.Now), files, cfg.MaxFollowing, cfg.Now()); err != nil {
		return Imported{}, err
	}
	if err := cfg.Clock.Doubt(); err != nil { // with a wrong clock, posts would be omitted as too old
		return Imported{}, err
	}
	im.lives = lifetime.New(lifetime.Config{Store: cfg.Store, Now: cfg.Now, TTL: cfg.TTL, Log: cfg.Log})
	if err := im.lives.Keep(ctx); err != nil {
		return Imported{}, err
	}
	im.feed = feed.New(feed.Config{
		Access: access.New(access.Config{
			Store: im.store, Publisher: inline{im}, IDs: cfg.IDs, Now: cfg.Now, Clock: cfg.Clock, Lifetimes: im.lives, ActiveDays: cfg.ActiveDays, Jitter: im.jitter, Log: cfg.Log,
		}),
		LikesByUser: cfg.LikesByUser,
	})
	im.worker = fanout.New(fanout.Config{
		Store: im.store, Posts: im.feed, Publisher: inline{im}, IDs: cfg.IDs, Now: cfg.Now, Clock: cfg.Clock, Lifetimes: im.lives,
		PushLimit: cfg.PushLimit, ActiveDays: cfg.ActiveDays, Writers: cfg.Writers, PageSize: cfg.PageSize, Walks: cfg.AtOnce, Log: cfg.Log,
	})
	out, err := im.run(ctx)
	out.Seconds = time.Since(began).Seconds()
	return out, err
}

func (im *importer) run(ctx context.Context) (Imported, error) {
	counts := im.index.counts
	out := Imported{
		Users: counts[kindUser], Follows: counts[kindFollow], Mutes: counts[kindMute], Blocks: counts[kindBlock], Posts: counts[kindPost], Comments: counts[kindComment], Likes: counts[kindLike], Bookmarks: counts[kindBookmark], Markers: counts[kindMarker],
	}
	// Follows are written before posts, because the delivery of a post writes pages of
	// entries, and the backfill of a follow writes only few entries at a time.
	err := im.write(ctx, kindUser, func(r *record) string { return r.ID }, im.user)
	if err == nil {
		err = im.write(ctx, kindFollow, func(r *record) string { return r.FollowerID }, im.follow)
	}
	ofUser := func(r *record) string { return r.UserID }
	if err == nil {
		err = im.write(ctx, kindMute, ofUser, func(ctx context.Context, r *record) error {
			return im.feed.ImportMute(ctx, r.UserID, r.OtherID, r.Time)
		})
	}
	if err == nil {
		err = im.write(ctx, kindBlock, ofUser, func(ctx context.Context, r *record) error {
			return im.feed.ImportBlock(ctx, r.UserID, r.OtherID, r.Time)
		})
	}
	began := time.Now()
	if err == nil {
		err = im.write(ctx, kindPost, func(r *record) string { return r.AuthorID }, im.post)
	}
	out.DeliverySeconds = time.Since(began).Seconds()
	if err == nil {
		err = im.write(ctx, kindComment, func(r *record) string { return r.ID }, im.comment)
	}
	if err == nil {
		err = im.likes(ctx)
	}
	if err == nil {
		err = im.write(ctx, kindBookmark, ofUser, func(ctx context.Context, r *record) error {
			return im.feed.ImportBookmark(ctx, r.UserID, im.index.postID(r.PostID), r.Time)
		})
	}
	if err == nil {
		err = im.write(ctx, kindMarker, ofUser, func(ctx context.Context, r *record) error {
			return im.feed.ImportMarker(ctx, r.UserID, r.Name, r.Position, r.Time)
		})
	}
	out.WCU = im.spent.units()
	if err == nil {
		out.Entries, err = im.verify(ctx)
	}
	return out, err
}

// eachRecord calls visit with each record of a kind in the files.
func (im *importer) eachRecord(ctx context.Context, k kind, visit func(at place, r *record) error) error {
	return eachLine(ctx, im.files, func(at place, line []byte) error {
		r, faults := parse(line, im.index.now)
		if len(faults) > 0 {
			return fmt.Errorf("%s has changed since it was checked", at)
		}
		if r.Type != k {
			return nil
		}
		return visit(at, &r)
	})
}

// located is a record with the place of its line.
type located struct {
	at place
	*record
}

// write writes the records of a kind, with AtOnce writes at the same time. Records with the
// same key are written one after another, because they change the same counts.
func (im *importer) write(ctx context.Context, k kind, key func(*record) string, do func(context.Context, *record) error) error {
	ph := im.phase(k)
	defer ph.finish()
	writers, ctx := errgroup.WithContext(ctx)
	queues := make([]chan located, im.cfg.AtOnce)
	for i := range queues {
		queues[i] = make(chan located, 16)
		writers.Go(func() error {
			for r := range queues[i] {
				if err := im.retry(ctx, func() error { return do(ctx, r.record) }); err != nil {
					return fmt.Errorf("%s: %w", r.at, err)
				}
				ph.add(1)
			}
			return nil
		})
	}
	writers.Go(func() error {
		defer func() {
			for _, q := range queues {
				close(q)
			}
		}()
		return im.eachRecord(ctx, k, func(at place, r *record) error {
			h := fnv.New32a()
			_, _ = h.Write([]byte(key(r))) // Write of a hash never fails
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case queues[h.Sum32()%uint32(len(queues))] <- located{at, r}:
				return nil
			}
		})
	})
	return writers.Wait()
}

func (im *importer) user(ctx context.Context, r *record) error {
	return im.feed.ImportUser(ctx, r.ID, r.profile(), r.Time)
}

func (im *importer) follow(ctx context.Context, r *record) error {
	from := r.From
	if from == "" {
		from = id.Min
	}
	pending, err := im.feed.ImportFollow(ctx, r.FollowerID, r.AuthorID, from, r.Time)
	if err != nil || !pending {
		return err
	}
	return im.worker.HandleBackfills(ctx, &messages.Followed{FollowerID: r.FollowerID, AuthorID: r.AuthorID})
}

func (im *importer) post(ctx context.Context, r *record) error {
	made, err := r.madeID()
	if err != nil {
		return err
	}
	post := schema.Post{ID: made, Author: r.AuthorID, Text: r.Text, ImageURL: r.ImageURL, Kind: r.Kind, Data: string(r.Data), Mentions: r.Mentions, End: r.end()}
	if r.EditedAt != nil {
		post.EditedAt = *r.EditedAt
	}
	ref, err := im.feed.ImportPost(ctx, post)
	if err != nil || ref.Gone(im.cfg.Now()) {
		return err
	}
	if shown, err := im.shown(ctx, made, 0); err != nil || !shown {
		return err
	}
	return im.worker.Deliver(ctx, ref)
}

func (im *importer) comment(ctx context.Context, r *record) error {
	made, err := r.madeID()
	if err != nil {
		return err
	}
	return im.feed.ImportComment(ctx, feed.Comment{ID: made, PostID: im.index.postID(r.PostID), AuthorID: r.AuthorID, Text: r.Text, Data: string(r.Data), Mentions: r.Mentions})
}

// tries is the maximum number of attempts of a step whose failure may be temporary.
const tries = 12

// retry repeats a step while its failure may be temporary.
func (im *importer) retry(ctx context.Context, do func() error) error {
	waits := backoff.Exponential{First: 50 * time.Millisecond, Most: 30 * time.Second}
	for try := 1; ; try++ {
		err := do()
		wait := waits.Jittered(try, im.jitter())
		down, isFeed := errors.AsType[*fault.Error](err)
		later, isLater := errors.AsType[*queue.Later](err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isLater:
			wait = max(later.After, wait)
		case try == tries, !queue.Transient(err) && (!isFeed || down.Kind != fault.Unavailable):
			return err
		}
		if err := backoff.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// jitter returns a number from 0 up to 1.
func (im *importer) jitter() float64 {
	if im.cfg.Random == nil {
		return rand.Float64()
	}
	return float64(im.cfg.Random()>>11) / (1 << 53)
}

// inline is a publisher that handles the events of the import's own worker at once, without
// a queue: a chunk of a post, or a walk over an author's followers. If the process dies,
// the next import begins the delivery again.
type inline struct{ im *importer }

// Publish implements message.Publisher.
func (p inline) Publish(topic string, msgs ...*message.Message) error {
	handle := p.im.worker.HandleBackfills
	if topic == queue.TopicChunks {
		handle = p.im.worker.HandleChunks
	}
	for _, msg := range msgs {
		event, err := messages.Decode(msg.Payload)
		if err != nil {
			return err
		}
		if err := p.im.retry(msg.Context(), func() error { return handle(msg.Context(), event) }); err != nil {
			return err
		}
	}
	return nil
}

// Close implements message.Publisher.
func (inline) Close() error { return nil }
