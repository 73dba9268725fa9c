package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"fanfare/internal/obs"
	"fanfare/internal/restore"
)

func (a *app) archiveTakeCommand() *cobra.Command {
	var yes, asJSON bool
	c := &cobra.Command{
		Use: "take", Short: "Let a restored data directory continue the archive",
		Long: `Gives the data directory the next term of the archive FANFARE_ARCHIVE. A restored directory refuses
to start with its archive until then, so that the test of a restore does not end the production:
the process that writes to the archive is refused from now on, and stops.

Run it on the machine that replaces the lost one, then start fanfare up there. It prints what
ends, and asks, unless --yes is given.`,
		Args: cobra.NoArgs,
	}
	c.Flags().String("data-dir", "", "data directory (FANFARE_DATA_DIR, default fanfare-data)")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := a.loadEmbedded(c, map[string]string{"data-dir": "FANFARE_DATA_DIR"})
		if err != nil {
			return err
		}
		from, err := openArchive(c.Context(), cfg.Archive)
		if err != nil {
			return err
		}
		taken, err := restore.Take(c.Context(), from, cfg.DataDir, obs.ReadBuild().Version, func(t restore.Takeover) error {
			if yes {
				return nil
			}
			return a.confirm(c.InOrStdin(), ending(t)+"Type take: ", "take")
		})
		if err != nil {
			return err
		}
		a.trail(cfg).Note(c.Context(), "archive take", 0, nil, zap.String("data_dir", cfg.DataDir), zap.Uint64("term", taken.Term))
		if asJSON {
			return a.printJSON(struct {
				Term    uint64 `json:"term"`
				Ended   uint64 `json:"ended"`
				Follows uint64 `json:"follows"`
			}{taken.Term, taken.Newest.Number, taken.Follows})
		}
		return a.println("%s has term %x of the archive: start fanfare up with it", cfg.DataDir, taken.Term)
	}
	return c
}

// ending returns the consequences of a takeover.
func ending(t restore.Takeover) string {
	text := "The archive is empty. "
	switch n := t.Newest; {
	case t.Own:
		text = fmt.Sprintf("This directory wrote term %x of the archive last. What the archive has after the end of the directory becomes void. ", n.Number)
	case n.Number > 0:
		text = fmt.Sprintf("Term %x of the archive ends, which fanfare %s began at %s on another directory. If its process still runs, it stops, and its later writes are in no archive. ", n.Number, printable(n.Version), n.At.Format(time.RFC3339))
	}
	if t.Follows == 0 && t.Newest.Number > 0 {
		text += "This directory has writes that the archive lacks, so its history begins with its next base. "
	}
	return text
}
