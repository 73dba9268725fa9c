package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/datadir"
	"fanfare/internal/obs"
	"fanfare/internal/ops/backup"
)

func (a *app) backupCommand() *cobra.Command {
	var offline bool
	c := &cobra.Command{
		Use: "backup DIR", Short: "Copy the data of fanfare up into a new directory, while it runs",
		Long: `Copies table and queue of a running fanfare up, as of one moment, into the new directory
DIR on its machine. It asks the admin address; posts and likes wait while the copy begins,
for less than a second on most machines. Every write that was answered before is in the
backup. DIR takes as much room as the data. A backup that fails removes its files.

With --offline it copies a data directory that no process has open. On AWS use
point-in-time recovery: see docs/BACKUP.md.`,
		Args: cobra.ExactArgs(1),
	}
	c.Flags().BoolVar(&offline, "offline", false, "copy a data directory that no process has open")
	c.Flags().String("data-dir", "", "data directory of --offline (FANFARE_DATA_DIR, default fanfare-data)")
	c.Flags().String("admin", "", "admin address of fanfare up (FANFARE_ADMIN_ADDR, default 127.0.0.1:9090)")
	return a.answers(c, func(ctx context.Context, u *use) (answer admin.Answer, err error) {
		cfg, err := a.loadEmbedded(c, map[string]string{"data-dir": "FANFARE_DATA_DIR", "admin": "FANFARE_ADMIN_ADDR"})
		if err != nil {
			return answer, err
		}
		dir, err := filepath.Abs(u.args[0])
		if err != nil {
			return answer, err
		}
		var made admin.Backup
		if offline {
			made, err = backupOffline(ctx, cfg.DataDir, dir)
			a.trail(cfg).Note(ctx, "backup", 0, err, zap.String("dir", dir), zap.Int("files", made.Files), zap.Int64("bytes", made.Bytes))
		} else {
			made, err = admin.MakeBackup().Do(ctx, admin.NewClient(cfg.AdminAddr, &http.Client{}), admin.BackingUp{Dir: dir})
		}
		if err != nil {
			return answer, err
		}
		text := fmt.Sprintf("backed up %d files, %.1f MB, to %s; the queue stood still for %d ms", made.Files, float64(made.Bytes)/1e6, made.Dir, made.HeldMillis)
		return admin.Answer{JSON: made, Text: text}, nil
	})
}

// loadEmbedded loads the configuration for a command that needs the embedded engine.
func (a *app) loadEmbedded(c *cobra.Command, flags map[string]string) (config.Config, error) {
	cfg, err := a.load(config.Tool, c, flags)
	if err == nil && cfg.Engine == config.EngineAWS {
		err = errEmbedded()
	}
	return cfg, err
}

func errEmbedded() error {
	return wrongUse(errors.New("FANFARE_ENGINE: backup and restore are for the embedded engine: on AWS use point-in-time recovery, see docs/BACKUP.md"))
}

func backupOffline(ctx context.Context, data, dir string) (made admin.Backup, err error) {
	state, err := datadir.Look(data)
	switch {
	case err != nil:
		return made, err
	case !state.Exists:
		return made, fmt.Errorf("there is no data directory %s: give --data-dir", data)
	case state.InUse:
		return made, fmt.Errorf("data directory %s is in use: leave --offline out to copy it while it runs", data)
	}
	from, err := datadir.Open(data)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := backup.Prepare(dir, data); err != nil {
		return made, err
	}
	contents, err := backup.Write(ctx, dir, backup.Source{Dir: from, Stores: data, MadeAt: time.Now(), Version: obs.ReadBuild().Version})
	return admin.Backup{Dir: dir, Files: len(contents.Files), Bytes: contents.Bytes()}, err
}
