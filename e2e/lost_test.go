package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// machineRounds is the number of losses after which the test continues with a new machine and a new archive,
	// because the checks of a round read all data of the rounds before.
	machineRounds = 20
	// archiveEvery is the default of FANFARE_ARCHIVE_EVERY.
	archiveEvery = time.Second
)

// readings returns the metrics of a process by their names and labels, nil without an answer.
func readings(ctx context.Context, admin string) map[string]float64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", http.NoBody)
	if err != nil {
		return nil
	}
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	values := map[string]float64{}
	s := bufio.NewScanner(resp.Body)
	for s.Scan() {
		name, text, _ := strings.Cut(s.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			values[name] = value
		}
	}
	if s.Err() != nil {
		return nil
	}
	return values
}

func inSeconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

// look has the metrics of a process about its archive.
type look struct {
	asked time.Time // before the process read the metrics
	lag   time.Duration
	put   time.Duration // no PUT took longer
}

func lookFrom(asked time.Time, values map[string]float64) look {
	l := look{asked: asked, lag: inSeconds(values["fanfare_archive_lag_seconds"]), put: time.Hour}
	bucket := regexp.MustCompile(`^fanfare_archive_put_seconds_bucket\{le="([0-9.]+)"\}$`)
	for name, value := range values {
		if match := bucket.FindStringSubmatch(name); match != nil && value == values["fanfare_archive_put_seconds_count"] {
			if bound, err := strconv.ParseFloat(match[1], 64); err == nil {
				l.put = min(l.put, inSeconds(bound))
			}
		}
	}
	return l
}

// looks reads the metrics about the archive until the process ends or until the returned function is called, which
// returns them.
func (u *upright) looks(t *testing.T, p *process) func() []look {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan []look, 1)
	go func() {
		var all []look
		defer func() { ended <- all }()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			asked := time.Now()
			if values := readings(ctx, u.admin); values != nil {
				all = append(all, lookFrom(asked, values))
			}
			select {
			case <-ctx.Done():
				return
			case <-p.exited:
				return
			case <-tick.C:
			}
		}
	}()
	return func() []look {
		stop()
		return <-ended
	}
}

// losses has the measurements of all losses.
type losses struct {
	spans, lags, looks []time.Duration // from the end of the restored data; the lag at the last look; all lags
	calls              []int
	put                time.Duration // no PUT took longer
	within             int           // losses of no more than the interval and a PUT
}

// medianOf sorts the values, and returns the median and the maximum.
func medianOf[T int | time.Duration](values []T) string {
	slices.Sort(values)
	return fmt.Sprintf("p50 %v, max %v", values[len(values)/2], values[len(values)-1])
}

// TestALostMachineLosesASecond kills `fanfare up` under load and deletes its data directory, several times. The
// archive has all that was answered until the lag before, and the restored directory continues the archive. A start
// without `fanfare archive take` is refused.
//
// The lag is a metric of the process: so no time of the test's own clock decides, and a busy machine fails no
// round. In most looks the lag is no more than the interval and a PUT. TestALossCostsAnIntervalAndAPut of
// internal/archiving has this limit for each write, in virtual time.
func TestALostMachineLosesASecond(t *testing.T) {
	t.Parallel()
	var all losses
	for first := 0; first < *archiveRounds; first += machineRounds {
		u, archive := archived(t)
		p := u.start(t)
		for round := first; round < min(first+machineRounds, *archiveRounds); round++ {
			began := time.Now()
			p = u.loses(t, p, archive, round, &all)
			t.Logf("round %d took %v", round, time.Since(began).Round(time.Millisecond))
		}
		p.stop(t)
		require.NoError(t, os.RemoveAll(archive))
		require.NoError(t, os.RemoveAll(u.data))
	}
	t.Logf("%d losses: %s of time, %s of answered calls. The lag at the last look before: %s; in %d looks: %s. No PUT took longer than %v. %d losses were within %v and a PUT",
		len(all.spans), medianOf(all.spans), medianOf(all.calls), medianOf(all.lags), len(all.looks), medianOf(all.looks), all.put, all.within, archiveEvery)
	assert.LessOrEqual(t, all.looks[len(all.looks)/2], archiveEvery+all.put, "the median of the lag")
}

// loses loads the process p, kills it, deletes its directory, and restores the directory from the archive. It returns
// the process that continues.
func (u *upright) loses(t *testing.T, p *process, archive string, round int, all *losses) *process {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(round), 1))
	file := filepath.Join(t.TempDir(), "journal")
	journal, looks := watch(t, file), u.looks(t, p)
	player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "40", "--posts", "400", "--likes", "4000",
		"--rate", "500", "--journal", file, "--seed", fmt.Sprint(round))...)
	hasBase(t, archive, 1)                        // later rounds may begin before the base of the new directory
	player.plays(t, file, 4000+random.IntN(4000)) // users and follows precede the posts, and the last second is lost
	p.kill(t)
	lost := time.Now()
	player.kill(t)

	l := u.restored(t, journal, lost, looks())
	t.Logf("round %d: %v", round, l)
	all.add(l)
	p, checked := u.continues(t, l.known)
	assert.NotZero(t, checked.Posts, "the check is of nothing")
	return p
}

// loss is the loss of a machine.
type loss struct {
	span           time.Duration // from the end of the restored data
	known          string        // the journal of the calls that the restored data must have
	answered, kept int           // numbers of calls
	seen           []look        // until the loss
	ago            time.Duration // from the last look
}

func (l loss) last() look { return l.seen[len(l.seen)-1] }

func (l loss) String() string {
	return fmt.Sprintf("the data end %v before the loss: %d of %d answered calls are lost; %v before the loss the lag was %v, and no PUT had taken longer than %v",
		l.span, l.answered-l.kept, l.answered, l.ago, l.last().lag, l.last().put)
}

func (all *losses) add(l loss) {
	all.spans, all.lags, all.calls = append(all.spans, l.span), append(all.lags, l.last().lag), append(all.calls, l.answered-l.kept)
	all.put = max(all.put, l.last().put)
	if l.span <= archiveEvery+l.last().put {
		all.within++
	}
	for _, look := range l.seen {
		all.looks = append(all.looks, look.lag)
	}
}

// restored deletes the directory of a process that was killed, and restores the directory from the archive.
func (u *upright) restored(t *testing.T, journal *timedJournal, lost time.Time, seen []look) loss {
	t.Helper()
	require.NoError(t, os.RemoveAll(u.data))
	r := u.restore(t, u.data)
	l := loss{span: lost.Sub(r.Until), seen: seen, ago: lost.Sub(seen[len(seen)-1].asked)}
	kept := r.Until
	if promised := l.last().asked.Add(-l.last().lag); promised.After(kept) {
		kept = promised // no call was answered after r.Until and before this time, or else the check fails
	}
	l.known, l.kept = journal.by(t, kept)
	_, l.answered = journal.by(t, lost)
	return l
}

// continues starts a process in a restored directory, which must have the calls of a journal, and checks the data
// and the archive. A start without `fanfare archive take` is refused.
func (u *upright) continues(t *testing.T, known string) (*process, report) {
	t.Helper()
	_, stderr, err := fanfare(t, u.env, "up", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
	assert.NotZero(t, code(err))
	assert.Contains(t, stderr, "fanfare archive take")
	u.fanfare(t, "archive", "take", "--yes", "--data-dir", u.data)
	p := u.start(t)
	stdout, stderr, err := fanfare(t, u.env, u.replay("--check", known)...)
	checked := verdict(t, stdout, stderr, err)
	u.sound(t, true)
	return p, checked
}
