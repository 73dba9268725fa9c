package admin

import (
	"context"
	"net/http"
	"path/filepath"
)

// Backup describes a finished backup.
type Backup struct {
	Dir   string `json:"dir"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	// HeldMillis is the time for which the queue was stopped.
	HeldMillis int64 `json:"held_ms"`
}

// Backuper copies the data of this process into a new directory.
type Backuper interface {
	Backup(ctx context.Context, dir string) (Backup, error)
}

// BackupError is the reason why a backup failed.
type BackupError struct{ Detail string }

func (e *BackupError) Error() string { return e.Detail }

// noBackup is the status of a failed backup. The client returns the answer's text.
const noBackup = http.StatusConflict

type backupRequest struct {
	Dir string `json:"dir"`
}

// handleBackup adds the operation to mux, unless b is nil: on AWS there is nothing to copy.
// A web page must not be able to request a backup.
func handleBackup(mux *http.ServeMux, b Backuper) {
	if b == nil {
		return
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		var in backupRequest
		if !read(w, r, &in, `{"dir": …}`) {
			return
		}
		if !filepath.IsAbs(in.Dir) {
			http.Error(w, "dir must be an absolute path", http.StatusUnprocessableEntity)
			return
		}
		made, err := b.Backup(r.Context(), filepath.Clean(in.Dir))
		if err != nil {
			http.Error(w, err.Error(), noBackup)
			return
		}
		write(w, made, nil)
	}
	mux.Handle("POST /admin/backup", http.NewCrossOriginProtection().Handler(http.HandlerFunc(handle)))
}

// Backup implements Backuper.
func (c *Client) Backup(ctx context.Context, dir string) (Backup, error) {
	var out Backup
	err := c.call(ctx, http.MethodPost, "/admin/backup", backupRequest{dir}, &out)
	return out, err
}
