package admin

import (
	"context"
	"net/http"
	"path/filepath"

	"go.uber.org/zap"
)

// Backup describes a finished backup.
type Backup struct {
	Dir   string `json:"dir"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	// HeldMillis is the time for which the queue was stopped.
	HeldMillis int64 `json:"held_ms"`
}

// BackingUp names the new directory of a backup.
type BackingUp struct {
	Dir string `json:"dir"`
}

// MakeBackup makes a backup. On AWS no process has the operation, because there is nothing to copy.
func MakeBackup() Op[BackingUp, Backup] {
	return Op[BackingUp, Backup]{
		Name: "backup", Route: "POST /admin/backup", Form: `{"dir": …}`,
		Has: func(d Domain) bool { return d.Backups != nil }, Long: true, Fails: http.StatusConflict,
		Check: func(in BackingUp) error {
			if !filepath.IsAbs(in.Dir) {
				return invalid("dir must be an absolute path")
			}
			return nil
		},
		Run: func(ctx context.Context, d Domain, in BackingUp) (Backup, error) {
			return d.Backups.Backup(ctx, filepath.Clean(in.Dir))
		},
		Note: func(in BackingUp, made Backup) (int, []zap.Field) {
			return 0, []zap.Field{zap.String("dir", filepath.Clean(in.Dir)), zap.Int("files", made.Files), zap.Int64("bytes", made.Bytes), zap.Int64("held_ms", made.HeldMillis)}
		},
	}
}
