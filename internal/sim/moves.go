package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/ops/transfer"
	"fanfare/internal/page"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// In some worlds a last storm is about the commands that move a network (docs/IMPORT.md): an import of a drawn
// network is killed and repeated beside traffic, an export runs beside it, and an operator damages counts that an
// audit mends meanwhile. Then the quiet table is exported, imported into a second one, and exported again. The users
// of the network follow no user of the workload, so the other oracles know nothing of them.

const (
	// movesEvery and movesAt choose the worlds: they have no other last part.
	movesEvery, movesAt = 12, 9
	// mover is the role of the processes of the commands.
	mover = "import"
	// movesOperations is the number of operations of the traffic, mostKills that of kills of importing processes, and
	// killOdds the number of steps of an import of which one kills it.
	movesOperations, mostKills, killOdds = 60, 4, 250
	// mostMoves is the number of steps after which no command is repeated any more.
	mostMoves = 12_000
	// damageOdds is the number of steps of which one damages a count, and mostDamages bounds the damages.
	damageOdds, mostDamages = 150, 5
)

// townsfolk are the users of the network. The table has some of them before the import.
func townsfolk() []string {
	return []string{"mover0", "mover1", "mover2", "mover3", "mover4", "mover5"}
}

// inTableBefore is the number of townsfolk who have profiles before the import.
const inTableBefore = 2

// moves is the oracle's knowledge of the storm.
type moves struct {
	w *World
	// file has the lines of the import, dir its directory, and want its records by the texts of posts.
	dir, file string
	want      records
	// ends are the ends of its posts, by the ids that the posts get.
	ends map[string]time.Time
	// touched are the records that traffic may have changed or made, and gone the posts, by text, that it may have
	// deleted.
	touched map[recordKey]bool
	gone    map[string]bool
	// damaged are the counts that an operator has made wrong.
	damaged map[table.Key]bool
	kills   int
	made    int

	importers []*command
	exporter  *command
	exported  exportBeside
}

// command is a command of an operator, which repeats it until it succeeds.
type command struct {
	p    *Proc
	name string
	runs int
	// running has the end of the present run; it is nil between two.
	running chan struct{}
	err     error
	done    bool
}

// steady is a table whose client repeats reads, as that of AWS does, and sorts the keys of a batch: a command that
// collects them in a map makes the same calls in each run.
type steady struct{ table.Store }

func (s steady) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	in.Keys = slices.Clone(in.Keys)
	slices.SortFunc(in.Keys, func(a, b table.Key) int { return strings.Compare(a.PK+" "+a.SK, b.PK+" "+b.SK) })
	return again(ctx, func() (table.BatchGetResult, error) { return s.Store.BatchGet(ctx, in) })
}

func (s steady) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	return again(ctx, func() (table.GetResult, error) { return s.Store.Get(ctx, in) })
}

func (s steady) Scan(ctx context.Context, in table.ScanInput) (table.ScanPage, error) {
	return again(ctx, func() (table.ScanPage, error) { return s.Store.Scan(ctx, in) })
}

// Query reads a page again that had no answer.
func (s steady) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		for more := true; more; {
			page, err := again(ctx, func() (page table.Page, err error) {
				for page, err = range s.Store.Query(ctx, q) {
					break
				}
				return page, err
			})
			if more = err == nil && page.More && len(page.Items) > 0; more {
				q.After = page.Items[len(page.Items)-1].Key.SK
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

// again makes a call until it has an answer of the table, five times at most.
func again[R any](ctx context.Context, do func() (R, error)) (res R, err error) {
	for try := range 5 {
		if res, err = do(); err == nil || !isUnavailable(err) {
			return res, err
		}
		select {
		case <-ctx.Done():
			return res, err
		case <-time.After(time.Second << try):
		}
	}
	return res, err
}

// transfers returns the settings of the commands of a process.
func (w *World) transfers(store table.Store, now func() time.Time) transfer.Config {
	var mu sync.Mutex
	drawn := random(w.rng.Uint64())
	return transfer.Config{
		Store: steady{store}, Now: now, TTL: timelineTTL, LikeWindow: likeWindow, LikesByUser: w.seed%2 == 0, PushLimit: w.pushLimit(),
		ActiveDays: w.activeDays(), Writers: 2, PageSize: w.shape.Page, AtOnce: 1, IDs: id.NewSeededGenerator(now, entropy(w.rng.Uint64())),
		Random: func() uint64 {
			mu.Lock()
			defer mu.Unlock()
			return drawn()
		},
	}
}

// movesStorm is that storm, with its checks.
func (w *World) movesStorm(ctx context.Context, o Options) {
	if o.Calm || o.Plain || o.Fans > 0 || w.seed%movesEvery != movesAt || len(w.load.violations) > 0 {
		return
	}
	m := &moves{
		w: w, want: records{}, ends: map[string]time.Time{}, touched: map[recordKey]bool{}, gone: map[string]bool{}, damaged: map[table.Key]bool{},
	}
	w.moves = m
	w.begin(60)
	if err := m.draw(); err != nil {
		w.load.fail("oracle", "%v", err)
		return
	}
	defer func() { _ = os.RemoveAll(m.dir) }() // a temporary folder
	m.start()
	w.faults = w.shape.rates()
	for _, rate := range []*float64{&w.faults.Sleep, &w.faults.Leap, &w.faults.Bury} {
		*rate = 0 // the records of the import stay young
	}
	m.storm()
	m.settle(ctx)
	w.quieten(ctx)
	if len(w.load.violations) == 0 {
		m.check(ctx)
	}
	if len(w.load.violations) == 0 {
		m.checkSecondTable(ctx)
	}
}

// draw makes the users that are there before, and the lines of the import.
func (m *moves) draw() error {
	w := m.w
	for _, user := range townsfolk()[:inTableBefore] {
		w.write(schema.Profile{User: user, Name: "Here " + user, CreatedAt: time.Now().Add(-500 * day)}.Item())
	}
	net := drawNetwork(draws(w.seed, 0, 9), time.Now().Truncate(time.Second))
	if m.ends = net.ends; net.fault != nil {
		return net.fault
	}
	m.want = recordsOfLines(net.text, byText)
	for key, value := range w.recordsIn(w.store, byText) { // a user who is there stays
		if key.kind == "user" && slices.Contains(townsfolk(), key.who) {
			m.want[key] = value
		}
	}
	dir, err := os.MkdirTemp("", "fanfare-sim")
	if err != nil {
		return err
	}
	m.dir, m.file = dir, filepath.Join(dir, "network.jsonl")
	return os.WriteFile(m.file, []byte(net.text), 0o600)
}

// start begins the processes of the commands: one or two imports of the same file, and an export.
func (m *moves) start() {
	w := m.w
	for i := range 1 + int(w.seed/movesEvery)%2 {
		m.importers = append(m.importers, &command{name: "import"})
		m.importers[i].p = w.start(mover, i, func(*Proc) {})
	}
	m.exporter = &command{name: "export", p: w.start(mover, 2, func(*Proc) {})}
	for _, c := range m.commands() {
		if !w.off[FaultSkew] {
			c.p.skew.Store(int64(w.apart(c.p)))
		}
	}
}

func (m *moves) commands() []*command { return append(slices.Clone(m.importers), m.exporter) }

// storm is traffic beside the commands.
func (m *moves) storm() {
	w := m.w
	for left := movesOperations; w.since < mostMoves && len(w.load.violations) == 0 && (left > 0 || !m.exporter.done); {
		m.kill()
		m.damage()
		m.operate()
		m.audit()
		w.step(func() bool { return left > 0 && m.next(&left) })
		w.load.settled()
	}
	w.faults, w.tight, w.heldBack = Rates{}, nil, false
	clear(w.armed)
}

// kill kills an importing process, now and then.
func (m *moves) kill() {
	w := m.w
	w.aboutStep("kill")
	c := m.importers[w.rng.IntN(len(m.importers))]
	if w.rng.IntN(killOdds) > 0 || m.kills >= mostKills || c.running == nil || c.p.dead || w.off[FaultCrash] {
		return
	}
	m.kills++
	w.crash(c.p, "moves")
}

// operate takes the ends of commands over, and repeats those that failed. An export that has succeeded is not
// repeated, and an import is: it changes nothing then.
func (m *moves) operate() {
	w := m.w
	for _, c := range m.commands() {
		if m.ended(c); c.running != nil || !c.p.up() || c == m.exporter && c.done {
			continue
		}
		w.aboutStep("operate " + c.p.Name)
		if w.rng.IntN(100) > 0 {
			continue
		}
		if c == m.exporter {
			m.export(c)
		} else {
			m.runImport(c)
		}
	}
}

// ended takes the end of a run over.
func (m *moves) ended(c *command) {
	if c.running == nil {
		return
	}
	select {
	case <-c.running:
	default:
		return
	}
	c.running, c.done = nil, c.err == nil
	text := "nil"
	if c.err != nil {
		text = strings.ReplaceAll(c.err.Error(), m.dir, "")
	}
	m.w.note("end %s of %s: %s", c.name, c.p.Name, text)
	if invalid, ok := errors.AsType[*transfer.InvalidError](c.err); ok {
		m.w.load.fail("I5", "an import refuses sound files: %s", strings.ReplaceAll(strings.Join(invalid.Faults, "; "), m.dir, ""))
	}
	if c == m.exporter && c.done {
		m.checkExportBeside()
	}
}

// run begins a run of a command in its process.
func (m *moves) run(c *command, do func(ctx context.Context) error) {
	c.runs++
	c.running, c.err = make(chan struct{}), nil
	name := fmt.Sprintf("%s-%s-%d", c.name, c.p.Name, c.runs)
	m.w.note("start %s", name)
	ended, ctx := c.running, withOp(c.p.life.ctx, name)
	c.p.run(func() {
		c.err = do(ctx)
		close(ended)
	})
	m.w.settle()
}

func (m *moves) runImport(c *command) {
	cfg := m.w.transfers(c.p.Store(), c.p.Now)
	m.run(c, func(ctx context.Context) error {
		_, err := transfer.Import(ctx, cfg, []string{m.file})
		return err
	})
}

// next begins an operation of the traffic, in the place of a user of the workload who is free.
func (m *moves) next(left *int) bool {
	w, l := m.w, m.w.load
	client := slices.IndexFunc(l.users, func(user string) bool { return l.busy[user] == nil })
	api := l.apis[w.rng.IntN(len(l.apis))]
	if client < 0 || !api.up() {
		return false
	}
	*left--
	if op := m.operation(l.users[client]); op != nil {
		l.run(op, api)
	}
	return true
}

// operation draws an operation of the traffic. What it may change is no longer what the file has.
func (m *moves) operation(client string) *operation {
	r, users := m.w.rng, townsfolk()
	user := users[r.IntN(len(users))]
	other := users[(slices.Index(users, user)+1+r.IntN(len(users)-1))%len(users)]
	kinds := []string{"follow", "follow", "unfollow", "post", "post", "like", "like", "react", "unlike", "comment", "comment", "delete", "profile", "bookmark", "home"}
	op := &operation{name: kinds[r.IntN(len(kinds))], user: client, settle: func(error) {}}
	post, known := m.aPost()
	touch := func(key recordKey) { m.touched[key] = true }
	m.made++
	text := fmt.Sprintf("traffic %d", m.made)
	switch op.name {
	case "follow", "unfollow":
		touch(recordKey{kind: "follow", who: user, other: other})
		op.do = func(ctx context.Context, s *domain) error {
			if op.name == "follow" {
				return s.Follow(ctx, user, other)
			}
			return s.Unfollow(ctx, user, other)
		}
	case "post":
		touch(recordKey{kind: "post", who: user, post: text})
		op.do = func(ctx context.Context, s *domain) error {
			_, err := s.CreatePost(ctx, user, feed.PostInput{Text: text})
			return err
		}
	case "profile":
		touch(recordKey{kind: "user", who: user})
		op.do = func(ctx context.Context, s *domain) error {
			_, err := s.PutProfile(ctx, user, feed.ProfileInput{Name: text})
			return err
		}
	case "home":
		op.do = func(ctx context.Context, s *domain) error {
			_, err := s.Home(ctx, user, home.Query{}, page.Request{})
			return err
		}
	default:
		if !known {
			return nil
		}
		m.onPost(op, post, user, text)
	}
	return op
}

// onPost makes an operation on a post.
func (m *moves) onPost(op *operation, post schema.Post, user, text string) {
	switch op.name {
	case "like", "react", "unlike":
		m.touched[recordKey{kind: "like", who: user, post: post.Text}] = true
		kind := map[string]string{"like": schema.KindLike, "react": kinds()[0]}[op.name]
		op.do = func(ctx context.Context, s *domain) error {
			if kind == "" {
				return s.Unlike(ctx, user, post.ID)
			}
			return s.React(ctx, user, post.ID, kind)
		}
	case "comment":
		m.touched[recordKey{kind: "comment", who: user, post: post.Text, other: text}] = true
		op.do = func(ctx context.Context, s *domain) error {
			_, err := s.CreateComment(ctx, user, post.ID, text)
			return err
		}
	case "bookmark":
		m.touched[recordKey{kind: "bookmark", who: user, post: post.Text}] = true
		op.do = func(ctx context.Context, s *domain) error { return s.Bookmark(ctx, user, post.ID) }
	case "delete":
		m.gone[post.Text] = true
		op.do = func(ctx context.Context, s *domain) error { return s.DeletePost(ctx, post.Author, post.ID) }
	}
}

// aPost draws a post of the town that is in the table.
func (m *moves) aPost() (post schema.Post, ok bool) {
	var all []schema.Post
	for _, user := range townsfolk() {
		for _, it := range m.w.partition(schema.PostsPK(user)) {
			if p, err := schema.ParsePost(it); err == nil {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		return post, false
	}
	return all[m.w.rng.IntN(len(all))], true
}

// settle ends the traffic, mends the damages that are left, and repeats the import until it succeeds: without
// traffic and faults it does at once.
func (m *moves) settle(ctx context.Context) {
	w := m.w
	until := func(done func() bool) {
		for w.steps < mostSteps && !done() {
			for _, c := range m.commands() {
				m.ended(c)
			}
			w.step(func() bool { return false })
			w.load.settled()
		}
	}
	until(func() bool {
		return len(w.load.busy) == 0 && !slices.ContainsFunc(m.commands(), func(c *command) bool { return c.running != nil })
	})
	m.mend(ctx)
	for _, c := range m.importers {
		for try := 0; try < 3 && w.steps < mostSteps; try++ {
			until(c.p.up)
			life := c.p.life
			m.runImport(c)
			until(func() bool { return c.running == nil })
			if c.done {
				break
			}
			if !life.over { // a crash that was aimed may come in quiet times, too
				missing, _ := errors.AsType[*transfer.MissingError](c.err)
				if missing == nil {
					missing = &transfer.MissingError{Faults: []string{c.err.Error()}}
				}
				w.load.fail("I5", "an import without traffic and faults fails: %s", strings.ReplaceAll(strings.Join(missing.Faults, "; "), m.dir, ""))
				return
			}
		}
	}
}
