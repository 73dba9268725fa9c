package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/obs"
	"fanfare/internal/restore"
)

func (a *app) archiveTakeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "take", Short: "Let a restored data directory continue the archive",
		Long: `Gives the data directory the next term of the archive FANFARE_ARCHIVE. A restored directory, and a copy
of a directory, refuse to start with the archive until then, so that a test does not end the
production: the process that writes to the archive is refused from now on, and stops.

Run it on the machine that replaces the lost one, then start fanfare up there. It prints what
ends, and asks, unless --yes is given.`,
		Args: cobra.NoArgs,
	}
	c.Flags().String("data-dir", "", "data directory (FANFARE_DATA_DIR, default fanfare-data)")
	return a.asks(c, func(ctx context.Context, u *use) (answer admin.Answer, err error) {
		cfg, err := a.loadEmbedded(c, map[string]string{"data-dir": "FANFARE_DATA_DIR"})
		if err != nil {
			return answer, err
		}
		from, err := openArchive(ctx, cfg.Archive)
		if err != nil {
			return answer, err
		}
		taken, err := restore.Take(ctx, from, cfg.DataDir, obs.ReadBuild().Version, func(t restore.Takeover) error {
			return u.sure(ending(t)+"Type take: ", "take")
		})
		if err != nil {
			return answer, err
		}
		a.trail(cfg).Note(ctx, "archive take", 0, nil, zap.String("data_dir", cfg.DataDir), zap.Uint64("term", taken.Term))
		answer.JSON = struct {
			Term    uint64 `json:"term"`
			Ended   uint64 `json:"ended"`
			Follows uint64 `json:"follows"`
		}{taken.Term, taken.Newest.Number, taken.Follows}
		answer.Text = fmt.Sprintf("%s has term %x of the archive: start fanfare up with it", cfg.DataDir, taken.Term)
		return answer, nil
	})
}

// ending returns the consequences of a takeover.
func ending(t restore.Takeover) string {
	text := "The archive is empty. "
	switch n := t.Newest; {
	case t.Own && t.Lacks:
		text = fmt.Sprintf("This directory took term %x of the archive, which has more than the directory: what is behind the end of the directory stays in fanfare archive ls as a line of its own. If a process still writes that term, it stops. ", n.Number)
	case t.Own:
		text = fmt.Sprintf("This directory took term %x of the archive, and has everything that the archive has. If a process still writes that term on another copy of the directory, it stops. ", n.Number)
	case t.Copy:
		text = fmt.Sprintf("Term %x of the archive ends, which another copy of this directory took at %s. If its process still runs, it stops, and its later writes are in no archive. What it wrote stays in fanfare archive ls as a line of its own. ", n.Number, n.At.Format(time.RFC3339))
	case n.Number > 0:
		text = fmt.Sprintf("Term %x of the archive ends, which fanfare %s began at %s on another directory. If its process still runs, it stops, and its later writes are in no archive. ", n.Number, printable(n.Version), n.At.Format(time.RFC3339))
	}
	if t.Follows == 0 && t.Newest.Number > 0 {
		text += "This directory has writes that the archive lacks, so its history begins with its next base. "
	}
	return text
}
