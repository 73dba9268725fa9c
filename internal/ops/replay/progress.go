package replay

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"fanfare/internal/terminal"
)

// progress shows the progress of a run. On a terminal it shows bars. Otherwise it writes a
// line every ten seconds, and a line at the end of each phase.
type progress struct {
	out  io.Writer
	bars bool
}

const lineInterval = 10 * time.Second

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	file, ok := out.(*os.File)
	return &progress{out: out, bars: ok && term.IsTerminal(int(file.Fd()))}
}

// say writes one line. A failed write is ignored.
func (p *progress) say(line string) { fmt.Fprintln(p.out, terminal.Escape(line)) }

// phase is one part of a run.
type phase struct {
	of    *progress
	label string
	total int
	bar   *progressbar.ProgressBar

	mu    sync.Mutex
	done  int
	began time.Time
	said  time.Time
}

// start begins a phase of total steps. If total is 0, the number of steps is unknown.
func (p *progress) start(label string, total int) *phase {
	ph := &phase{of: p, label: label, total: total, began: time.Now(), said: time.Now()}
	if p.bars {
		most := total
		if most == 0 {
			most = -1 // the bar is a spinner
		}
		ph.bar = progressbar.NewOptions(most,
			progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(label), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return ph
}

func (ph *phase) add(n int) {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	ph.done += n
	switch {
	case ph.bar != nil:
		ph.bar.Add(n) //nolint:errcheck // a failed drawing is ignored
	case time.Since(ph.said) >= lineInterval:
		ph.said = time.Now()
		ph.of.say(fmt.Sprintf("%s: %d of %d", ph.label, ph.done, ph.total))
	}
}

func (ph *phase) finish() {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if ph.bar != nil {
		ph.bar.Finish() //nolint:errcheck // a failed drawing is ignored
	}
	took := time.Since(ph.began).Round(10 * time.Millisecond)
	if ph.total == 0 {
		ph.of.say(fmt.Sprintf("%s: %v", ph.label, took))
		return
	}
	ph.of.say(fmt.Sprintf("%s: %d of %d in %v", ph.label, ph.done, ph.total, took))
}
