package transfer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
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
	// Alone reports that no other process changes the table. So an export is a snapshot, and has also the records that
	// are ahead of its clock.
	Alone bool
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
	left   leftReposts
	// line reads a line again. It is a field, because the declaration of the kinds may not refer to itself.
	line func(place) (record, error)
}

// Import writes the records of files into the table, and checks that the table has all of
// these records. If the files have faults, Import writes nothing and returns an
// *InvalidError. An import may be repeated: existing records do not change.
func Import(ctx context.Context, cfg Config, files []string) (Imported, error) {
	cfg = cfg.withDefaults()
	began := time.Now()
	im := &importer{cfg: cfg, files: files}
	im.line = func(at place) (record, error) { return at.read(im.index.now) }
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
	out.WCU, out.Seconds = im.spent.units(), time.Since(began).Seconds()
	return out, err
}

func (im *importer) run(ctx context.Context) (Imported, error) {
	out := Imported{Records: Counts{}}
	for _, k := range kinds {
		out.Records[k.name.many()] = im.index.counts[k.name]
	}
	for _, k := range kinds {
		began, write := time.Now(), im.write
		if k.write == nil {
			write = im.likes
		}
		err := write(ctx, &k)
		if k.name == kindRepost && err == nil {
			err = im.countReposts(ctx)
		}
		if k.name == kindPost {
			out.DeliverySeconds = time.Since(began).Seconds()
		}
		if err != nil {
			return out, err
		}
	}
	var err error
	out.Entries, out.LeftOut, err = im.verify(ctx)
	for _, lost := range []Counts{out.LeftOut.Ended, out.LeftOut.Deleted, {kindLike.many(): out.LeftOut.TakenBack}} {
		for name, n := range lost {
			out.Records[name] -= n
		}
	}
	return out, err
}

// eachRecord calls visit with each record of a kind in the files.
func (im *importer) eachRecord(ctx context.Context, k kind, visit func(at place, r *record) error) error {
	return eachLine(ctx, im.files, func(at place, line []byte) error {
		r, faults := parse(line, im.index.now)
		if len(faults) > 0 {
			return at.changed()
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

// write writes the records of a kind, with AtOnce writes at the same time.
func (im *importer) write(ctx context.Context, k *kindSpec) error {
	ph := im.phase(k.name)
	defer ph.finish()
	writers, ctx := errgroup.WithContext(ctx)
	queues := make([]chan located, im.cfg.AtOnce)
	for i := range queues {
		queues[i] = make(chan located, 16)
		writers.Go(func() error {
			for r := range queues[i] {
				if err := im.retry(ctx, func() error { return k.write(im, ctx, r.record) }); err != nil {
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
		return im.eachRecord(ctx, k.name, func(at place, r *record) error {
			h := fnv.New32a()
			_, _ = h.Write([]byte(k.key(r))) // Write of a hash never fails
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

func (im *importer) follow(ctx context.Context, r *record) error {
	from := r.From
	if from == "" {
		from = id.Min
	}
	pending, err := im.feed.ImportFollow(ctx, feed.PastFollow{Follower: r.FollowerID, Author: r.AuthorID, From: from, Since: r.Time, Silent: r.Silent})
	if err != nil || !pending {
		return err
	}
	return im.worker.HandleBackfills(ctx, &messages.Followed{FollowerID: r.FollowerID, AuthorID: r.AuthorID})
}

// post makes a post, after the posts of the files that it quotes, and these quote: a quote keeps the author and the like
// shards of its original. The lines of these posts deliver them.
func (im *importer) post(ctx context.Context, r *record) error {
	chain, known := []*record{r}, map[string]bool{r.ID: true}
	for of := r.QuoteOf; of != "" && !known[of]; of = chain[len(chain)-1].QuoteOf {
		original, there := im.index.posts[hashOf(of)]
		if !there {
			break
		}
		it, err := im.store.Get(ctx, table.GetInput{Key: schema.PostByIDKey(id.Unpack(original.made[:])), Consistent: true})
		if err != nil || it.Item != nil {
			if err != nil {
				return err
			}
			break
		}
		q, err := im.line(original.at)
		if err != nil {
			return err
		}
		known[of], chain = true, append(chain, &q)
	}
	for _, q := range slices.Backward(chain[1:]) {
		if _, err := im.makePost(ctx, q); err != nil {
			return err
		}
	}
	ref, err := im.makePost(ctx, r)
	if err != nil {
		return err
	}
	return im.deliver(ctx, ref)
}

// makePost makes the post of a record.
func (im *importer) makePost(ctx context.Context, r *record) (ref schema.PostRef, err error) {
	made, err := r.madeID()
	if err != nil {
		return ref, err
	}
	post := schema.Post{ID: made, Author: r.AuthorID, Content: r.Content}
	if r.QuoteOf != "" {
		post.QuoteOf = im.index.postID(r.QuoteOf)
	}
	if r.EditedAt != nil {
		post.EditedAt = *r.EditedAt
	}
	return im.feed.ImportPost(ctx, post)
}

// deliver delivers a living post that homes still show.
func (im *importer) deliver(ctx context.Context, ref schema.PostRef) error {
	if ref.Gone(im.cfg.Now()) {
		return nil
	}
	if shown, err := im.shown(ctx, ref.ID, 0); err != nil || !shown {
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
