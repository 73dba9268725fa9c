package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"fanfare/internal/daemon"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/likeagg"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/internal/throttle"
)

// These are the numbers of a user's actions in a day, in the unscaled network of docs/CAPACITY.md.
const (
	dayUsers, dayFollowers       = 10_000_000, 200
	dayPosts, dayLikes, dayPages = 1.0, 5.0, 10.0
	dayStep                      = 100 * time.Millisecond
	oneDay                       = 24 * time.Hour
	dayProcesses                 = 2 // for the fan-out, and for the aggregators
	// These are the units of the largest actions: a post with its entries and its delivery record, and a
	// page of a home.
	largestWrites, largestReads = 9 + dayFollowers + 2, 33
	// With this sharpness the busiest second has three times the traffic of the mean second.
	busiest, sharpness = 3, 1.7606
)

// dayShape is a part of a day at a scale of 1 : scale. The users of the shape make the traffic of the
// whole scaled network, so each of few users makes more calls than a user of the network. The use of the
// previous period sets the first capacity. The spike raises the traffic by half for half an hour.
type dayShape struct {
	scale         float64
	users         int
	begins, lasts time.Duration
	before        time.Duration
	spike         time.Duration
}

// traffic returns the traffic at a time of the day, relative to the day's mean.
func (s dayShape) traffic(at time.Duration) float64 {
	mean := 0.0
	for h := range 24 {
		mean += evening(float64(h)/24) / 24
	}
	f := evening(at.Hours()/24) / mean
	if since := at - s.spike; since >= 0 && since < 30*time.Minute {
		f *= 1 + 0.5*min(1, since.Minutes())
	}
	return f
}

// evening has its maximum at four fifths of the day.
func evening(day float64) float64 { return math.Exp(sharpness * math.Cos(2*math.Pi*(day-0.8))) }

// noise returns a random factor. Its standard deviation is sd, and a deviation lasts for about tau.
func noise(rng *rand.Rand, sd float64, tau time.Duration) func() float64 {
	x, keep := 0.0, math.Exp(-dayStep.Seconds()/tau.Seconds())
	return func() float64 {
		x = keep*x + sd*math.Sqrt(1-keep*keep)*rng.NormFloat64()
		return math.Exp(x - sd*sd/2)
	}
}

// networkDay is the product on a limited table, with the users of the product.
type networkDay struct {
	*testing.T
	shape  dayShape
	rng    *rand.Rand // the random numbers of the driver
	memory *tabletest.Memory
	table  *tabletest.Limited
	server *sqstest.Server
	broker *sqs.Broker
	feed   *feed.Service
	homes  *home.Homes
	calls  sync.WaitGroup
	due    [3]float64 // the posts, likes and pages that are due

	mu                 sync.Mutex
	made               []answeredPost // in the order of the answers
	likes              map[string]map[int]bool
	asked, unavailable int
	tooSoon            int // the number of likes of posts that no process had written yet
	postDelay, lag     *hdrhistogram.Histogram
}

type answeredPost struct {
	id     string
	author int
}

func newNetworkDay(t *testing.T, shape dayShape) *networkDay {
	t.Helper()
	d := &networkDay{
		T: t, shape: shape, rng: rand.New(rand.NewPCG(41, 0)),
		memory: tabletest.NewMemory(), server: sqstest.New(5 * time.Millisecond), likes: map[string]map[int]bool{},
	}
	require.NoError(t, seedTable(t.Context(), d.memory, graph{users: d.shape.users, name: user, follows: func(yield func(follow) bool) {
		for i := range d.shape.users {
			for n := range dayFollowers {
				if !yield(follow{user(i), user(d.followee(i, n))}) {
					return
				}
			}
		}
	}}))
	d.table = tabletest.NewLimited(d.memory, math.MaxInt64)
	d.table.SetLimit(tabletest.IndexWrites, math.MaxInt64, 0) // with this limit the table counts the units of the index
	d.broker = sqs.New(sqstest.Client(d.server), sqs.Options{Prefix: "day", MaxInFlight: map[string]int{
		queue.TopicPosts: 64, queue.TopicBackfills: 32, queue.TopicChunks: 32, queue.TopicLikes: likesHeld,
	}})
	d.feed, d.homes = d.api(new(throttle.Shares).Store(d.table, throttle.API))
	d.measureAgain()
	return d
}

// followee returns the nth author that a user follows.
func (d *networkDay) followee(user, n int) int {
	return (user + 1 + n*(d.shape.users-1)/dayFollowers) % d.shape.users
}

// api returns the product as an API process runs it.
func (d *networkDay) api(store table.Store) (*feed.Service, *home.Homes) {
	way := access.New(access.Config{
		Store: store, Publisher: d.broker, IDs: id.NewGenerator(time.Now), Now: time.Now,
		Lifetimes: lifetime.Fixed(timelineTTL), LikeWindow: likeWindow, Log: zap.NewNop(),
	})
	f := feed.New(feed.Config{Access: way, LikesByUser: true})
	return f, home.New(home.Config{Access: way, Items: f, Mutes: f, HeadAge: time.Second})
}

// work runs the processes of the fan-out and the aggregators until stop.
func (d *networkDay) work() (stop func() error) {
	ctx, cancel := context.WithCancel(d.Context())
	var aggregators errgroup.Group
	var stops []func() error
	for range dayProcesses {
		shares := &throttle.Shares{Yield: throttle.Yield{AtOnce: daemon.BatchesAtOnce()}}
		stops = append(stops, consumeAll(ctx, shares, d.table, d.broker, func(_ int, sincePost time.Duration) {
			d.record(func() *hdrhistogram.Histogram { return d.postDelay }, sincePost)
		}))
		aggregator := likeagg.New(likeagg.Config{
			Store: d.table, Broker: d.broker, Window: likeWindow, MaxMessages: likesHeld, IndexLikes: true, Grace: 5 * time.Second, Log: zap.NewNop(),
			Answered: func(a queue.Answered) {
				if a.Result == queue.ResultDone {
					d.record(func() *hdrhistogram.Histogram { return d.lag }, time.Since(a.Due))
				}
			},
		})
		aggregators.Go(func() error { return aggregator.Run(ctx) })
	}
	return func() (err error) {
		cancel()
		for _, stop := range stops {
			err = errors.Join(err, stop())
		}
		return errors.Join(err, aggregators.Wait(), d.broker.Close())
	}
}

// measureAgain discards the measurements so far.
func (d *networkDay) measureAgain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	newest := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Hour.Milliseconds(), 3) }
	d.postDelay, d.lag, d.asked, d.unavailable, d.tooSoon = newest(), newest(), 0, 0, 0
}

// record adds a delay in milliseconds to the current histogram of a kind.
func (d *networkDay) record(into func() *hdrhistogram.Histogram, delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	assert.NoError(d, into().RecordValue(min(max(1, delay.Milliseconds()), time.Hour.Milliseconds())))
}

// call makes a call of a user who gives up after a 503. If the table refused the write of a post whose
// request was answered, the post is not found until a worker has written the post.
func (d *networkDay) call(do func(ctx context.Context) (done func(), err error)) {
	d.calls.Go(func() {
		done, err := do(d.Context())
		failed, _ := errors.AsType[*fault.Error](err)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.asked++
		switch {
		case err == nil:
			done()
		case failed != nil && failed.Kind == fault.Unavailable:
			d.unavailable++
		case failed != nil && failed.Kind == fault.NotFound:
			d.tooSoon++
		default:
			d.Errorf("a call failed for good: %v", err)
		}
	})
}

func (d *networkDay) post() {
	author := d.rng.IntN(d.shape.users)
	d.call(func(ctx context.Context) (func(), error) {
		post, err := d.feed.CreatePost(ctx, user(author), feed.PostInput{Content: feed.Content{Text: fmt.Sprintf("%0280d", author)}})
		return func() { d.made = append(d.made, answeredPost{post.ID, author}) }, err
	})
}

// like makes a user like a post of the last hours, usually one of the newest posts.
func (d *networkDay) like() {
	d.mu.Lock()
	post := d.made[max(0, len(d.made)-1-int(d.rng.ExpFloat64()*float64(d.shape.users)/10))].id
	d.mu.Unlock()
	reader := d.rng.IntN(d.shape.users)
	d.call(func(ctx context.Context) (func(), error) {
		return func() {
			if d.likes[post] == nil {
				d.likes[post] = map[int]bool{}
			}
			d.likes[post][reader] = true
		}, d.feed.Like(ctx, user(reader), post)
	})
}

func (d *networkDay) page() {
	reader := d.rng.IntN(d.shape.users)
	d.call(func(ctx context.Context) (func(), error) {
		_, err := d.homes.Home(ctx, user(reader), home.Query{}, page.Request{Limit: 20})
		return func() {}, err
	})
}

// pass lets a part of the day pass with its traffic, and calls each after each minute. A second of the
// real network has hundreds of actions. So actions come at regular intervals, and only the noise varies
// their number.
func (d *networkDay) pass(begins, lasts time.Duration, each func(minute int)) {
	quick, slow := noise(d.rng, 0.10, 2*time.Minute), noise(d.rng, 0.05, 30*time.Minute)
	for at := begins; at < begins+lasts; at += dayStep {
		f := d.shape.traffic(at) * quick() * slow() * dayUsers / d.shape.scale * dayStep.Seconds() / oneDay.Seconds()
		for i, kind := range []struct {
			rate float64
			do   func()
		}{{dayPosts, d.post}, {dayLikes, d.like}, {dayPages, d.page}} {
			for d.due[i] += f * kind.rate; d.due[i] >= 1; d.due[i]-- {
				kind.do()
			}
		}
		<-time.After(dayStep)
		if next := at + dayStep; next%time.Minute == 0 {
			each(int(next / time.Minute))
		}
	}
}

// settle waits until all calls are answered and the queues are empty.
func (d *networkDay) settle() time.Duration {
	began := time.Now()
	d.calls.Wait()
	for !d.server.Idle() {
		<-time.After(time.Second)
		for _, topic := range queue.Topics() {
			dead, err := d.broker.ListDead(d.Context(), topic, 1)
			require.NoError(d, err)
			require.Empty(d, dead, "dead letters of %s", topic)
		}
		require.Less(d, time.Since(began), 2*time.Hour, "the queues are never empty")
	}
	return time.Since(began)
}

// compare reads each home to its end and each count, without the limits of the table. It compares them
// with the answers to the calls.
func (d *networkDay) compare() (homes, counts int) {
	feed, shown := d.api(d.memory)
	byAuthor := make([][]string, d.shape.users)
	for _, post := range d.made {
		byAuthor[post.author] = append(byAuthor[post.author], post.id)
		count, err := feed.LikeCount(d.Context(), access.As(""), post.id)
		require.NoError(d, err)
		if int(count.Count) != len(d.likes[post.id]) {
			counts++
		}
	}
	for reader := range d.shape.users {
		want := slices.Clone(byAuthor[reader])
		for n := range dayFollowers {
			want = append(want, byAuthor[d.followee(reader, n)]...)
		}
		got, err := wholeHome(d.Context(), shown, user(reader))
		require.NoError(d, err)
		slices.Sort(want)
		slices.Reverse(want)
		if !slices.Equal(want, got) {
			homes++
		}
	}
	return homes, counts
}
