package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/ops/backup"
	"fanfare/internal/restore"
)

func (a *app) restoreCommand() *cobra.Command {
	var target restore.Target
	c := &cobra.Command{
		Use: "restore [DIR]", Short: "Fill an empty data directory from a backup or an archive",
		Long: `Fills the data directory, which must be new or empty, from the backup in DIR, or from the archive
of --from. Each file is compared with its hash. Start fanfare up there afterwards: it continues as
after a crash at that moment. Then fanfare dlq ls lists messages that are too old by now.

An archive has each second of its retention: --at chooses one, the default is the newest state.
A restored directory refuses to start with its archive until fanfare archive take was run.

A data directory cannot be opened until it is restored to the end. If a restore was
interrupted, run it again: it asks before it removes the remains of the first one, unless --yes
is given.`,
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().String("data-dir", "", "data directory (FANFARE_DATA_DIR, default fanfare-data)")
	c.Flags().String("from", "", "the archive, s3://bucket/prefix or file:///directory (FANFARE_ARCHIVE)")
	c.Flags().Func("at", "the `TIME` of the restored state, such as 2026-11-22T08:00:00Z", func(text string) (err error) {
		target.At, err = pastTime(text, time.Now())
		return err
	})
	c.Flags().Uint64Var(&target.Term, "term", 0, "the `NUMBER` of the last term (default the newest), for a branch that another directory left")
	return a.asks(c, func(ctx context.Context, u *use) (answer admin.Answer, err error) {
		cfg, err := a.loadEmbedded(c, map[string]string{"data-dir": "FANFARE_DATA_DIR", "from": "FANFARE_ARCHIVE"})
		if err != nil {
			return answer, err
		}
		ofArchive := c.Flags().Changed("from") || c.Flags().Changed("at") || c.Flags().Changed("term")
		switch {
		case len(u.args) == 1 && ofArchive:
			return answer, wrongUse(errors.New("give the directory of a backup, or --from, --at and --term of an archive, not both"))
		case len(u.args) == 1:
			return u.restoreBackup(ctx, cfg, u.args[0])
		case cfg.Archive == "":
			return answer, wrongUse(errors.New("name the directory of a backup, or an archive with --from"))
		}
		return u.restoreArchive(ctx, cfg, target)
	})
}

// removeRemains asks whether the remains of an interrupted restore may be removed.
func (u *use) removeRemains(cfg config.Config) func(remains []string) error {
	return func(remains []string) error {
		return u.sure(fmt.Sprintf("A restore into %s did not end. Remove %s there? Type yes: ", cfg.DataDir, strings.Join(remains, ", ")), "yes")
	}
}

func (u *use) restoreBackup(ctx context.Context, cfg config.Config, dir string) (answer admin.Answer, err error) {
	contents, err := backup.Restore(ctx, dir, cfg.DataDir, u.removeRemains(cfg))
	u.trail(cfg).Note(ctx, "restore", 0, err, zap.String("dir", dir), zap.String("data_dir", cfg.DataDir), zap.Int("files", len(contents.Files)), zap.Int64("bytes", contents.Bytes()))
	if err != nil {
		return answer, err
	}
	answer.JSON = struct {
		DataDir string    `json:"data_dir"`
		MadeAt  time.Time `json:"made_at"`
		Version string    `json:"version"`
		Files   int       `json:"files"`
		Bytes   int64     `json:"bytes"`
	}{cfg.DataDir, contents.MadeAt, contents.Version, len(contents.Files), contents.Bytes()}
	answer.Text = fmt.Sprintf("restored %d files, %.1f MB, of %s into %s", len(contents.Files), float64(contents.Bytes())/1e6, contents.MadeAt.Format(time.RFC3339), cfg.DataDir)
	return answer, nil
}

func (u *use) restoreArchive(ctx context.Context, cfg config.Config, target restore.Target) (answer admin.Answer, err error) {
	from, err := openArchive(ctx, cfg.Archive)
	if err != nil {
		return answer, err
	}
	plan, err := restore.Find(ctx, from, target)
	if err != nil {
		return answer, err
	}
	shown := u.bytesRead("restored")
	err = restore.Run(ctx, from, plan, cfg.DataDir, restore.Options{
		Remove: u.removeRemains(cfg), Done: func(done int64) { shown(done, plan.Size()) }, Log: u.log(cfg),
	})
	u.trail(cfg).Note(ctx, "restore", 0, err, zap.String("archive", cfg.Archive), zap.String("data_dir", cfg.DataDir),
		zap.Time("until", plan.Until), zap.Uint64("term", plan.Term()), zap.Int("files", len(plan.Base.Files)), zap.Int64("bytes", plan.Size()))
	if err != nil {
		return answer, err
	}
	answer.JSON = struct {
		DataDir  string    `json:"data_dir"`
		Until    time.Time `json:"until"`
		Term     uint64    `json:"term"`
		Base     time.Time `json:"base"`
		Files    int       `json:"files"`
		Segments int       `json:"segments"`
		Bytes    int64     `json:"bytes"`
	}{cfg.DataDir, plan.Until, plan.Term(), plan.Base.MadeAt, len(plan.Base.Files), plan.Segments, plan.Size()}
	answer.Text = fmt.Sprintf("restored %d files and %d segments, %.1f MB, as of %s into %s: run fanfare archive take there before fanfare up with this archive",
		len(plan.Base.Files), plan.Segments, float64(plan.Size())/1e6, plan.Until.UTC().Format("2006-01-02T15:04:05.000Z"), cfg.DataDir)
	return answer, nil
}
