package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/datadir"
	"fanfare/internal/feed/removal"
	"fanfare/internal/ops/transfer"
)

const importHelp = `Imports users, follows, mutes, blocks, posts, reposts, comments, likes, bookmarks and read
markers from files of JSON lines,
each with its time, which may be years ago. docs/IMPORT.md describes the lines.

All lines are checked first: a fault is named with its file, line and field, and nothing is
imported then. Records that are there already stay as they are. So if an import was stopped or
killed, the same command goes on. At the end it reads everything back: the records, the
counts of users and posts, and the timelines of the followers. It prints what it left out: records of posts
that have ended or were deleted, and reposts and likes that users ended.

With FANFARE_ENGINE=aws it writes the table, and may run beside the daemons. Otherwise it opens
the data directory, which no fanfare up may have open. --admin makes a running fanfare up import the
files, by its admin address: the files must be on its machine. Settings must equal the settings of the daemons.`

// awsRate is the default of --rate on AWS: a quarter of the capacity of a new table.
const awsRate = 1000

func (a *app) importCommand() *cobra.Command {
	var rate float64
	c := &cobra.Command{Use: "import FILE...", Short: "Import users, follows, mutes, blocks, posts, reposts, comments, likes, bookmarks and read markers", Long: importHelp, Args: cobra.MinimumNArgs(1)}
	c.Flags().Float64Var(&rate, "rate", 0, "most write units a second, 0 for no limit (default 1000 on AWS)")
	return a.answers(c, a.onData(c, func(ctx context.Context, cfg config.Config, at admin.Process, u *use) (answer admin.Answer, err error) {
		if rate < 0 {
			return answer, wrongUse(errors.New("--rate must be at least 0"))
		}
		if cfg.Engine == config.EngineAWS && !c.Flags().Changed("rate") {
			rate = awsRate
		}
		done, err := admin.Import().Do(ctx, at, admin.Importing{Files: u.args, Rate: rate, Part: a.partsTo(nil)})
		if err != nil {
			return answer, err
		}
		text := leftOut(done.LeftOut) + fmt.Sprintf("imported %s: all are in the table, and %d timeline entries; %.0f write units", done.Records, done.Entries, done.WCU)
		return admin.Answer{JSON: done, Text: text}, nil
	}))
}

// partsTo returns a function that shows the progress and the faults of a transfer, and writes its lines to out.
func (a *app) partsTo(out io.Writer) func(admin.TransferPart) error {
	progress := newProgressLines(a.stderr)
	return func(p admin.TransferPart) error {
		switch {
		case p.Progress != nil:
			progress.show(*p.Progress)
		case p.Fault != "":
			fmt.Fprintln(a.stderr, printable(p.Fault))
		case out != nil:
			_, err := out.Write(p.Lines)
			return err
		}
		return nil
	}
}

// leftOut returns lines about the records that an import left out, with the reasons.
func leftOut(left transfer.LeftOut) (text string) {
	for _, of := range []struct {
		lost transfer.Counts
		why  string
	}{{left.Ended, "have ended"}, {left.Deleted, "were deleted in the table"}} {
		for _, n := range of.lost {
			if n > 0 {
				text += fmt.Sprintf("left out %s: their posts %s\n", of.lost, of.why)
				break
			}
		}
	}
	if left.TakenBack > 0 {
		text += fmt.Sprintf("left out %d likes: their users took them back in the table\n", left.TakenBack)
	}
	if left.Quoted > 0 {
		text += fmt.Sprintf("imported %d posts without the posts that they quote, which are gone\n", left.Quoted)
	}
	return text
}

const exportHelp = `Writes users, follows, mutes, blocks, posts, reposts, comments, likes, bookmarks and read
markers as JSON lines to the standard output: the lines of fanfare import, so that a network can move to another table. The same
data is always the same lines. With --user it writes one user: the profile, the follows
in both directions, the user's mutes, blocks and read markers, the posts, and the user's reposts, comments,
likes and bookmarks.

With FANFARE_ENGINE=aws it reads the whole table, and may run beside the daemons: an import always
accepts the lines, which have nothing that was made after the beginning of the export. --admin does the
same with a running fanfare up, by its admin address. Otherwise it opens the data directory, which no
fanfare up may have open.`

func (a *app) exportCommand() *cobra.Command {
	var user string
	c := &cobra.Command{Use: "export", Short: "Write users, follows, mutes, blocks, posts, reposts, comments, likes, bookmarks and read markers as JSON lines", Long: exportHelp, Args: cobra.NoArgs}
	c.Flags().StringVar(&user, "user", "", "write the records of this `USER` only")
	u := &use{app: a, command: c}
	return u.does(a.onData(c, func(ctx context.Context, _ config.Config, at admin.Process, _ *use) (answer admin.Answer, err error) {
		if err := admin.CheckIDs(user); err != nil {
			return answer, wrongUse(err)
		}
		_, err = admin.Export().Do(ctx, at, admin.Exporting{User: user, Part: a.partsTo(a.stdout)})
		return answer, err
	}))
}

const forgetHelp = `Removes a user: the profile, the posts, the follows in both directions, the user's mutes, blocks,
comments, likes, bookmarks and read markers. Homes of others show nothing of the user any more. Mutes and blocks of the
user, by other users, stay. A user can do the same by DELETE /v1/me.

It asks for the user's id again, unless --yes. It may be repeated, and goes on where it was
stopped. A user that is unknown, with no profile and no earlier removal, is an error: the id may
be mistyped. --unknown-ok removes the rest of such an id, which may be nothing. Likes are taken back by the workers, which also look for the user once more an hour
later. The user can come back with a new profile, and keeps all that is made after that.
Likes that were made with FANFARE_LIKES_BY_USER=off stay and count, because nothing finds them
by their user; while it is off, the command says so.

With FANFARE_ENGINE=aws it may run beside the daemons. Otherwise it opens the data directory, which
no fanfare up may have open. --admin removes the user from a running fanfare up, by its admin address.`

func (a *app) forgetCommand() *cobra.Command {
	var in admin.Forgetting
	c := &cobra.Command{Use: "forget USER", Short: "Remove a user and all that the user made", Long: forgetHelp, Args: cobra.ExactArgs(1)}
	addDataFlags(c)
	c.Flags().BoolVar(&in.UnknownOK, "unknown-ok", false, "remove the rest of a user that is unknown")
	return a.asks(c, func(ctx context.Context, u *use) (answer admin.Answer, err error) {
		in.User = u.args[0]
		if err := admin.CheckIDs(in.User); err != nil {
			return answer, wrongUse(err)
		}
		cfg, err := a.load(config.Tool, c, dataFlags())
		if err != nil {
			return answer, err
		}
		if running := a.running(c, cfg); running != nil {
			return u.forget(ctx, running, in)
		}
		if err := dataIsFree(cfg, false); err != nil {
			return answer, err
		}
		domain, end, err := daemon.OpenRemovals(ctx, cfg, a.log(cfg))
		if err != nil {
			return answer, err
		}
		domain.Trail = a.trail(cfg)
		answer, err = u.forget(ctx, domain, in)
		return answer, errors.Join(err, end())
	})
}

// forget asks, and removes a user from the data of a process.
func (u *use) forget(ctx context.Context, at admin.Process, in admin.Forgetting) (answer admin.Answer, err error) {
	look := in
	look.DryRun = true
	known, err := admin.Forget().Do(ctx, at, look)
	if err != nil {
		return answer, err
	}
	if known.LikesStay {
		fmt.Fprintf(u.stderr, "Likes of %s stay and count: FANFARE_LIKES_BY_USER is off, so nothing finds them by their user.\n", in.User)
	}
	question := fmt.Sprintf("All posts, follows, comments and likes of %s will be removed for good. Type the user's id to go on: ", in.User)
	if err := u.sure(question, in.User); err != nil {
		return answer, err
	}
	lines := newProgressLines(u.stderr)
	in.Progress = func(n int) { lines.show(transfer.Progress{Phase: "removed", Done: n}) }
	done, err := admin.Forget().Do(ctx, at, in)
	if err != nil {
		return answer, err
	}
	answer.JSON = done
	answer.Text = fmt.Sprintf(map[removal.Knowledge]string{
		removal.Known:   "removed %s and %d things of the user; the workers do the rest",
		removal.Removed: "%s was removed before; removed %d things that were left; the workers do the rest",
		removal.Unknown: "there was no user %s; removed %d things that were left under the id; the workers look once more in an hour",
	}[done.Was], in.User, done.Removed)
	return answer, nil
}

// dataIsFree returns an error if a process has the data directory open, or if there is none. With makes the command makes
// a missing directory.
func dataIsFree(cfg config.Config, makes bool) error {
	if cfg.Engine == config.EngineAWS {
		return nil
	}
	state, err := datadir.Look(cfg.DataDir)
	if err == nil && state.InUse {
		return fmt.Errorf("data directory %s is in use by another process: name its admin address, such as --admin %s, or stop that one", cfg.DataDir, cfg.AdminAddr)
	}
	if err == nil && !state.Exists && !makes {
		return fmt.Errorf("there is no data directory %s: name it with --data-dir", cfg.DataDir)
	}
	return nil // opening the directory returns the fault
}

// onData returns the work that calls do with the process that has the data of the configuration: with --admin a running
// process, and otherwise this process, which opens the table of FANFARE_ENGINE=aws, or a data directory that no other process
// has open.
func (a *app) onData(c *cobra.Command, do func(ctx context.Context, cfg config.Config, at admin.Process, u *use) (admin.Answer, error)) work {
	addDataFlags(c)
	return func(ctx context.Context, u *use) (answer admin.Answer, err error) {
		cfg, err := a.load(config.Tool, c, dataFlags())
		if err != nil {
			return answer, err
		}
		if running := a.running(c, cfg); running != nil {
			if err := absolute(u.args); err != nil { // of the files of an import; an export has no arguments
				return answer, err
			}
			return do(ctx, cfg, running, u)
		}
		imports := c.Name() == "import"
		if imports {
			err = transfer.CheckFiles(u.args) // first, because the open makes a data directory
		}
		if err == nil {
			err = dataIsFree(cfg, imports)
		}
		if err != nil {
			return answer, err
		}
		t, end, err := daemon.OpenTransfer(ctx, cfg, a.log(cfg))
		if err != nil {
			return answer, err
		}
		answer, err = do(ctx, cfg, admin.Domain{Transfers: &t, Trail: a.trail(cfg)}, u)
		return answer, errors.Join(err, end())
	}
}

// absolute makes the names of files independent of the folder of a process.
func absolute(files []string) (err error) {
	for i := range files {
		if files[i], err = filepath.Abs(files[i]); err != nil {
			return err
		}
	}
	return nil
}

// addDataFlags adds the flags that name the data of a command.
func addDataFlags(c *cobra.Command) {
	c.Flags().String("data-dir", "", "data directory (FANFARE_DATA_DIR, default fanfare-data)")
	c.Flags().String("admin", "", "admin address of the running fanfare up that has the data, such as 127.0.0.1:9090")
	c.MarkFlagsMutuallyExclusive("data-dir", "admin")
}

// dataFlags are the flags of addDataFlags with their variables.
func dataFlags() map[string]string {
	return map[string]string{"data-dir": "FANFARE_DATA_DIR", "admin": "FANFARE_ADMIN_ADDR"}
}

// running returns the process that --admin names, nil for none. On AWS every process may open the data.
func (a *app) running(c *cobra.Command, cfg config.Config) admin.Process {
	if !c.Flags().Changed("admin") || cfg.Engine == config.EngineAWS {
		return nil
	}
	return admin.NewClient(cfg.AdminAddr, &http.Client{Timeout: time.Minute})
}

// progressLines shows the progress of a transfer: a line every ten seconds, and a line at
// the end of each phase.
type progressLines struct {
	out  io.Writer
	mu   sync.Mutex
	last time.Time
}

func newProgressLines(out io.Writer) *progressLines {
	return &progressLines{out: out, last: time.Now()}
}

func (p *progressLines) show(at transfer.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !at.Ended && time.Since(p.last) < 10*time.Second {
		return
	}
	p.last = time.Now()
	if at.Total == 0 {
		fmt.Fprintf(p.out, "%s: %d\n", at.Phase, at.Done)
		return
	}
	fmt.Fprintf(p.out, "%s: %d of %d\n", at.Phase, at.Done, at.Total)
}
