package sim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fanfare/internal/ops/transfer"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// In some worlds a last storm is about the commands that move a network (docs/IMPORT.md). An import
// of a drawn network is killed and repeated during traffic and an export. Meanwhile an operator
// damages counts, and an audit repairs the counts. Then the quiet table is exported, imported into
// a second table, and exported again. The users of the network follow no user of the workload, so
// the other oracles ignore them.

const (
	// movesEvery and movesAt choose the worlds. These worlds have no other last part.
	movesEvery, movesAt = 12, 9
	// mover is the role of the processes of the commands.
	mover = "import"
	// movesOperations is the number of operations of the traffic, and mostKills is the number of killed
	// imports. killOdds is the mean number of steps of an import until a kill.
	movesOperations, mostKills, killOdds = 60, 4, 250
	// mostMoves is the number of steps after which the operator starts no command again.
	mostMoves = 12_000
	// damageOdds is the mean number of steps until a count is damaged, and mostDamages is the maximum
	// number of damages.
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
	// dir is the directory of the import, and file has the import's lines. want has the records of the lines,
	// named by the texts of posts.
	dir, file string
	want      records
	// ends has the ends of the posts in the lines, by the ids that the import gives the posts.
	ends map[string]time.Time
	// reposters has a user with a repost of a post in the lines, by the text of the post.
	reposters map[string]string
	// touched has the records that traffic may have changed or made. gone has, by text, the posts
	// that traffic may have deleted.
	touched map[recordKey]bool
	gone    map[string]bool
	// damaged has the counts that an operator has made wrong.
	damaged map[table.Key]bool
	kills   int
	made    int

	importers            []*command
	exporter, reconciler *command
	exported             exportBeside
	// service is the domain of the process that reconciles.
	service *domain
}

// movesStorm runs the storm about the commands, and its checks.
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
	m.stormy()
	m.storm()
	m.settle(ctx)
	if w.calm() {
		w.pause(clocksMost + reconcileAfter)
		_, service := w.operated()
		m.reconcile(ctx, service)
	}
	w.quieten(ctx)
	if len(w.load.violations) == 0 {
		m.check(ctx)
	}
	if len(w.load.violations) == 0 {
		m.checkSecondTable(ctx)
	}
	if len(w.load.violations) == 0 && !w.hours { // a like of a clock hours ahead is counted once it is old (docs/BACKUP.md)
		m.restoreStorm(ctx)
	}
}

// stormy begins the faults, and calmDown ends them.
func (m *moves) stormy() {
	f := m.w.shape.rates()
	f.Sleep, f.Leap, f.Bury = 0, 0, 0 // the records of the import stay young
	m.w.faults = f
}

func (m *moves) calmDown() {
	m.w.faults, m.w.tight, m.w.heldBack = Rates{}, nil, false
	clear(m.w.armed)
}

// draw makes the users that exist before the import, and the lines of the import.
func (m *moves) draw() error {
	w := m.w
	for _, user := range townsfolk()[:inTableBefore] {
		w.write(schema.Profile{User: user, Name: "Here " + user, CreatedAt: time.Now().Add(-500 * day)}.Item())
	}
	net := drawNetwork(draws(w.seed, 0, 9), time.Now().Truncate(time.Second))
	if m.ends, m.reposters = net.ends, net.reposters; net.fault != nil {
		return net.fault
	}
	m.want = recordsOfLines(net.text, byText)
	for key, value := range w.recordsIn(w.store, byText) { // a user who already exists does not change
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

// start begins the processes of the commands: one or two imports of the same file, an export, and a reconcile.
func (m *moves) start() {
	w := m.w
	for i := range 1 + int(w.seed/movesEvery)%2 {
		m.importers = append(m.importers, &command{name: "import"})
		m.importers[i].p = w.start(mover, i, func(*Proc) {})
	}
	m.exporter = &command{name: "export", p: w.start(mover, 2, func(*Proc) {})}
	m.reconciler = &command{name: "reconcile", p: w.start(mover, 3, func(p *Proc) { m.service = w.service(p) })}
	for _, c := range m.commands() {
		if !w.off[FaultSkew] {
			c.p.skew.Store(int64(w.apart(c.p)))
		}
	}
}

func (m *moves) commands() []*command {
	return append(slices.Clone(m.importers), m.exporter, m.reconciler)
}

// storm runs traffic during the commands.
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
	m.calmDown()
}

// kill sometimes kills an importing process.
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

// settle ends the traffic, mends the remaining damages, and repeats the import until it succeeds. Without
// traffic and faults the next import succeeds.
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
			if !life.over { // a planned crash may happen in quiet times, too
				missing, _ := errors.AsType[*transfer.MissingError](c.err)
				if missing == nil {
					missing = &transfer.MissingError{Faults: []string{c.err.Error()}}
				}
				if missing.Faults = slices.DeleteFunc(missing.Faults, w.awaitsLikes); len(missing.Faults) == 0 {
					break
				}
				w.load.fail("I5", "an import without traffic and faults fails: %s", strings.ReplaceAll(strings.Join(missing.Faults, "; "), m.dir, ""))
				return
			}
		}
	}
}

// awaitsLikes reports whether a fault that an import found is the count of a post that may lack likes.
func (w *World) awaitsLikes(fault string) bool {
	of, found := strings.CutPrefix(fault, "likes of post ")
	post, _, _ := strings.Cut(of, ":")
	return found && w.mayLackLikes(post)
}
