package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/archive"
	"fanfare/internal/config"
	"fanfare/internal/objects"
)

// archivePatience is the time for which a command waits for a store that does not answer.
const archivePatience = 30 * time.Second

func (a *app) archiveCommand() *cobra.Command {
	ls := a.archiveReader("ls", "List terms, bases and the times to which a restore can return", a.listArchive)
	ls.Long = `Lists the processes that wrote to the archive (terms), the bases, and the ranges of time to
which fanfare restore --from can return. A term after which another directory continued has a
range of its own: see --term of fanfare restore. A range begins when its base was complete: a
restore to an earlier time since the last write before the base succeeds, with the same state.`
	gaps := a.archiveReader("gaps", "List the times to which no restore can return", a.archiveGaps)
	gaps.Long = `Lists the times to which no restore can return, because the archive was away for longer than
FANFARE_STREAM_SPOOL lasts, or a standby took over. A gap without an end ends with the next base.`
	var deep bool
	var dir string
	verify := a.archiveReader("verify", "Read the whole archive, and name damaged and missing objects", func(ctx context.Context, r archiveRun) (admin.Answer, error) {
		return a.verifyArchive(ctx, r, dir, deep)
	})
	verify.Flags().StringVar(&dir, "data-dir", "", "also compare with what the data directory knows about its archive")
	verify.Flags().BoolVar(&deep, "deep", false, "also restore a drawn second into a temporary directory, and audit it")
	verify.Long = `Reads all objects of the archive and compares them with their hashes, and terms, segments and
bases with each other. It may run while fanfare up writes. It names each object that is
damaged or missing, and the times to which a restore is possible all the same; with a fault the
exit code is 1. It transfers the whole archive. It cannot see that the last segments of the newest
term are missing, unless --data-dir names the stopped directory that wrote them.

With --deep it also restores the archive to a time that it draws, into a directory below
TMPDIR, which has to have room for it, audits the restored table, and removes the directory.`
	return group("archive", "Look at the archive of fanfare up, check it, or take it over", ls, gaps, verify, a.archiveTakeCommand())
}

// archiveRun is one run of a command that reads an archive.
type archiveRun struct {
	*archive.Archive
	cfg config.Config
}

// archiveReader returns a command that calls work with the archive.
func (a *app) archiveReader(words, short string, work func(context.Context, archiveRun) (admin.Answer, error)) *cobra.Command {
	c := &cobra.Command{Use: words, Short: short, Args: cobra.NoArgs}
	c.Flags().String("from", "", "`URL` of the archive, s3://bucket/prefix or file:///directory (FANFARE_ARCHIVE)")
	return a.answers(c, func(ctx context.Context, _ *use) (answer admin.Answer, err error) {
		cfg, err := a.load(config.Tool, c, map[string]string{"from": "FANFARE_ARCHIVE"})
		if err != nil {
			return answer, err
		}
		from, err := openArchive(ctx, cfg.Archive)
		if err != nil {
			return answer, err
		}
		return work(ctx, archiveRun{from, cfg})
	})
}

// openArchive opens the archive at an address.
func openArchive(ctx context.Context, address string) (*archive.Archive, error) {
	if address == "" {
		return nil, wrongUse(errors.New("which archive? Give --from, or set FANFARE_ARCHIVE"))
	}
	location, err := objects.Parse(address)
	if err != nil {
		return nil, wrongUse(err)
	}
	store, err := location.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the archive: %w", err)
	}
	return archive.New(objects.NewPatient(store, archivePatience), time.Now)
}

// termView is a term in a JSON object, and baseView is a base.
type (
	termView struct {
		Term     uint64    `json:"term"`
		Since    time.Time `json:"since"`
		Node     string    `json:"node"`
		Lineage  string    `json:"lineage"`
		Version  string    `json:"version"`
		Continue uint64    `json:"continues,omitzero"`
	}
	baseView struct {
		Term    uint64    `json:"term"`
		Segment uint64    `json:"segment"`
		MadeAt  time.Time `json:"made_at"`
		Files   int       `json:"files"`
		Bytes   int64     `json:"bytes"`
	}
)

func (*app) listArchive(ctx context.Context, from archiveRun) (answer admin.Answer, err error) {
	c, err := from.Catalog(ctx)
	if err != nil {
		return answer, err
	}
	lines, err := from.Lines(ctx, c)
	if err != nil {
		return answer, err
	}
	terms, bases := []termView{}, []baseView{}
	for _, t := range c.Terms {
		terms = append(terms, termView{t.Number, t.At, t.Node, t.Lineage, t.Version, t.Parent.Term})
	}
	for _, b := range c.Bases {
		view := baseView{b.Term, b.First, b.MadeAt, len(b.Files), 0}
		for _, f := range b.Files {
			view.Bytes += f.Bytes
		}
		bases = append(bases, view)
	}
	answer.JSON = struct {
		Terms []termView     `json:"terms"`
		Bases []baseView     `json:"bases"`
		Lines []archive.Line `json:"lines"`
	}{terms, bases, lines}
	rows := [][]string{{"TERM", "SINCE", "DIRECTORY", "VERSION", "CONTINUES"}}
	for _, t := range terms {
		rows = append(rows, []string{number(t.Term), t.Since.Format(time.RFC3339), t.Node, t.Version, number(t.Continue)})
	}
	bytes := [][]string{{"BASE OF TERM", "SEGMENT", "TIME", "FILES", "MB"}}
	for _, b := range bases {
		bytes = append(bytes, []string{number(b.Term), number(b.Segment), b.MadeAt.Format(time.RFC3339), strconv.Itoa(b.Files), fmt.Sprintf("%.1f", float64(b.Bytes)/1e6)})
	}
	ranges := [][]string{{"RESTORE WITH TERM", "FROM", "TO"}}
	for _, l := range lines {
		for _, r := range l.Ranges {
			ranges = append(ranges, []string{number(l.Term), seconds(r.From), seconds(r.To)})
		}
	}
	answer.Text = strings.TrimSuffix(columns(rows)+"\n"+columns(bytes)+"\n"+columns(ranges), "\n")
	return answer, nil
}

// number formats the number of a term or a segment.
func number(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

// seconds formats the end of a range. The zero time is an open end.
func seconds(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

func (*app) archiveGaps(ctx context.Context, from archiveRun) (answer admin.Answer, err error) {
	c, err := from.Catalog(ctx)
	if err != nil {
		return answer, err
	}
	lines, err := from.Lines(ctx, c)
	if err != nil {
		return answer, err
	}
	type gap struct {
		Term uint64 `json:"term"`
		archive.Range
	}
	gaps, rows, restorable := []gap{}, [][]string{{"TERM", "FROM", "TO"}}, false
	for _, line := range lines {
		restorable = restorable || len(line.Ranges) > 0
		for _, r := range line.Gaps {
			gaps = append(gaps, gap{line.Term, r})
			rows = append(rows, []string{number(line.Term), seconds(r.From), seconds(r.To)})
		}
	}
	answer.JSON = struct {
		Restorable bool  `json:"restorable"`
		Gaps       []gap `json:"gaps"`
	}{restorable, gaps}
	switch {
	case !restorable:
		answer.Text = "no restore is possible: the archive has no base yet"
	case len(gaps) == 0:
		answer.Text = "no gaps"
	default:
		answer.Rows = rows
	}
	return answer, nil
}

func (a *app) verifyArchive(ctx context.Context, from archiveRun, dir string, deep bool) (answer admin.Answer, err error) {
	found, err := from.Verify(ctx, a.bytesRead("read"))
	if err != nil {
		return answer, err
	}
	if dir != "" {
		state, err := archive.ReadState(dir)
		if err != nil {
			return answer, err
		}
		ends, err := from.Compare(ctx, state)
		if err != nil {
			return answer, err
		}
		found.Faults = append(found.Faults, ends...)
	}
	var deeply *rehearsal
	if deep && len(found.Faults) == 0 {
		done, err := a.rehearse(ctx, from.cfg, from.Archive)
		if err != nil {
			return answer, err
		}
		deeply = &done
	}
	answer.JSON = struct {
		archive.Findings
		Deep *rehearsal `json:"deep,omitempty"`
	}{found, deeply}
	answer.Text = verified(found, deeply)
	switch {
	case len(found.Faults) > 0:
		return answer, fmt.Errorf("%d objects of the archive are damaged or missing, and a restore that needs one of them fails: check the store, and keep a fanfare backup until a base made after the damage is FANFARE_ARCHIVE_KEEP old", len(found.Faults))
	case deeply != nil && len(deeply.Findings) > 0:
		return answer, fmt.Errorf("the restored table has %d findings: look for them with fanfare verify in the running fanfare up", len(deeply.Findings))
	}
	return answer, nil
}

// verified returns the findings of a verification for people, and the times to which a restore is possible.
func verified(found archive.Findings, deeply *rehearsal) (text string) {
	for _, f := range found.Faults {
		text += fmt.Sprintf("%s: %s\n", f.Object, f.Fault)
	}
	text += fmt.Sprintf("read %d objects, %.1f MB, with %d faults\n", found.Objects, float64(found.Bytes)/1e6, len(found.Faults))
	if found.Restorable {
		text += "a restore to the newest state is possible\n"
	} else {
		text += "NO restore to the newest state is possible\n"
	}
	rows := [][]string{{"RESTORE WITH TERM", "FROM", "TO"}}
	for _, l := range found.Lines {
		for _, r := range l.Ranges {
			rows = append(rows, []string{number(l.Term), seconds(r.From), seconds(r.To)})
		}
	}
	if len(rows) > 1 {
		text += columns(rows)
	}
	if deeply != nil {
		for _, f := range deeply.Findings {
			text += fmt.Sprintf("%s  %s / %s: %s\n", f.Kind, printable(f.PK), printable(f.SK), printable(f.Detail))
		}
		text += fmt.Sprintf("restored the state of %s in term %d: %d items with %d findings\n", seconds(deeply.At), deeply.Term, deeply.Items, len(deeply.Findings))
	}
	return strings.TrimSuffix(text, "\n")
}

// bytesRead returns a function that shows how many bytes of a work are done: a bar on a terminal,
// otherwise a line every ten seconds.
func (a *app) bytesRead(label string) func(done, total int64) {
	var bar *progressbar.ProgressBar
	told := time.Now()
	return func(done, total int64) {
		switch {
		case isTerminal(a.stderr) && bar == nil:
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription(label),
				progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
			fallthrough
		case bar != nil:
			bar.Set64(done) //nolint:errcheck // a failed drawing is ignored
		case time.Since(told) >= tellEvery:
			told = time.Now()
			_, _ = fmt.Fprintf(a.stderr, "%s %.1f of %.1f MB\n", label, float64(done)/1e6, float64(total)/1e6) // progress is not the result
		}
	}
}
