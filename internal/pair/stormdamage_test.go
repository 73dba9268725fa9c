package pair_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/follow"
	"fanfare/internal/pair"
	"fanfare/internal/stream"
)

// harm is the damage of a disk. The mu of the world guards it.
type harm struct {
	what  string // empty for a sound disk
	ended error  // the named error with which the start or the session has ended
	path  string // of the damaged file
	whole []byte // the file before the damage
}

// refuses reports whether a start or a process has ended with an error. Only a machine with a damaged disk may have one, and it names damage.
func (m *machine) refuses(err error) bool {
	if err == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if assert.NotEmpty(m, m.harm.what, "a sound disk is refused: %v", err) && assert.True(m, names(err), "%s: %v", m.harm.what, err) {
		m.harm.ended = err
	}
	return true
}

// names reports whether an error names damage, or data that a disk lacks.
func names(err error) bool {
	for _, named := range []error{disk.ErrDamaged, stream.ErrDamaged, follow.ErrDamaged, pair.ErrDamagedCopy, pair.ErrRewound, pair.ErrMustSeed, pair.ErrOldCopy, pair.ErrCopied, pair.ErrSameDisk} {
		if errors.Is(err, named) {
			return true
		}
	}
	return false
}

// harmed returns the damage of a machine.
func (m *machine) harmed() harm {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.harm
}

func (m *machine) heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.harm = harm{}
}

// spoilFile loses a file of a disk, cuts it, or puts an older one in its place, if it finds one. older is the disk at an earlier time. After
// kill -9 a cut end of the newest log and of the newest file of a tail is what a power cut leaves.
func (m *machine) spoilFile(older vfs.FS, killed bool) (h harm) {
	m.Helper()
	dir := "data/" + []string{"queue", "table", "tail", "stream"}[m.rng.IntN(4)]
	files, err := m.mem.List(dir)
	if err != nil || len(files) == 0 {
		return h
	}
	slices.Sort(files)
	name := files[m.rng.IntN(len(files))]
	path, like := dir+"/"+name, kindOf(name)
	content, err := disktest.Read(m.mem, path)
	require.NoError(m, err)
	alike := slices.DeleteFunc(slices.Clone(files), func(other string) bool { return kindOf(other) != like })
	grows := killed && (like == ".log" || like == ".tail") && name == alike[len(alike)-1]
	h.path, h.whole = path, content
	how := m.rng.IntN(3)
	switch {
	case name == "LOCK":
		return harm{}
	case how == 0 || len(content) == 0:
		require.NoError(m, m.mem.Remove(path))
		h.what = path + " is lost"
		return h
	case grows:
		return harm{}
	case how == 1:
		disktest.Write(m.T, m.mem, path, content[:m.rng.IntN(len(content))])
		h.what = path + " is cut"
		return h
	}
	before, err := disktest.Read(older, path)
	if at := slices.Index(alike, name); (err != nil || string(before) == string(content)) && at > 0 {
		before, err = disktest.Read(m.mem, dir+"/"+alike[at-1])
	}
	if err != nil || like == ".sst" && len(before) == len(content) { // the size of a sorted file shows which one it is
		return harm{}
	}
	disktest.Write(m.T, m.mem, path, before)
	h.what = path + " is an older one"
	return h
}

// kindOf returns the kind of a file of a data directory.
func kindOf(name string) string {
	if at := strings.LastIndexByte(name, '.'); at >= 0 && !strings.HasPrefix(name, "marker.") {
		return name[at:]
	}
	kind, _, _ := strings.Cut(name, "-")
	return kind
}

// damages makes a damage on the disk of a machine of a pair between a stop and a start. The machine serves each answered write, or it follows again, or a
// named error ends the start: then the text names the way out.
func (w *world) damages() {
	w.Helper()
	primary, standby := w.settle()
	m, killed := []*machine{primary, standby}[w.rng.IntN(2)], w.rng.IntN(2) == 0
	older := m.clone(100)
	pass(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
	if killed {
		m.die(100)
	} else {
		m.exit()
	}
	h := m.spoilFile(older, killed)
	m.mu.Lock()
	m.harm = h
	m.mu.Unlock()
	alone := m == standby && w.rng.IntN(2) == 0
	if alone {
		primary.die(100)
	}
	m.boot()
	if alone && m.harmed().ended == nil && m.process.standby != nil && m.promote() == nil {
		w.promotions++
	}
	if alone && m.process.primary == nil {
		primary.boot()
	}
	end := w.ends(m)
	w.log.Info(m.name + ": " + h.what + ": " + end)
	w.harmed[end]++
	if end == "refused" {
		w.helps(m)
	}
	m.heal()
}

// ends waits until a machine with a damaged disk serves, follows, or is refused.
func (w *world) ends(m *machine) (end string) {
	w.Helper()
	w.calm()
	require.True(w, w.within(3*time.Minute, func() bool {
		w.tend()
		switch {
		case m.harmed().ended != nil:
			end = "refused"
		case m.process.primary != nil && m.serves():
			end = "serves"
		case m.process.standby != nil && m.process.standby.Status().Mode == pair.ModePaired:
			end = "follows"
		case m.process.standby != nil && strings.Contains(m.process.standby.Status().Reason, pair.ErrMustSeed.Error()):
			m.refuses(pair.ErrMustSeed)
		}
		pass(100 * time.Millisecond)
		return end != ""
	}), "%s: the machine neither serves nor follows, and no error names the damage", m.harmed().what)
	return end
}

// helps takes one of the ways out of a refused start.
func (w *world) helps(m *machine) {
	w.Helper()
	role, peer, h := m.loadRole(), w.peer(m), m.harmed()
	m.die(100)
	m.heal()
	switch {
	case w.rng.IntN(2) == 0: // bring the file back
		disktest.Write(w.T, m.mem, h.path, h.whole)
	case role.Role == pair.RoleStandby: // another copy
		m.replace(pair.RoleStandby)
	default: // the other machine takes over
		if peer.process.standby != nil {
			if peer.promote() != nil { // it has become the primary by itself
				peer.exit()
				peer.boot()
			}
		}
		m.replace(pair.RoleStandby)
	}
	m.boot()
}

// A disk that loses a file, cuts it or has an older one is never served with less than what was answered: the start is complete, or it is refused
// with the damage and a way out, or the machine gets another copy.
func TestAPairWithDamagedDisksInAStorm(t *testing.T) {
	t.Parallel()
	inBubble(t, *storms, func(w *world) {
		w.draws()
		w.boot()
		for range 8 {
			for range w.rng.IntN(3) {
				w.step()
			}
			w.damages()
		}
		w.end()
		w.Log(w.harmed)
	})
}
