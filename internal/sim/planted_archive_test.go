package sim

// ofArchive is the beginning of the names of the bugs that seeds find in the archive of the embedded engine.
const ofArchive = "archive: "

// archiveBugs returns the planted bugs of the archive. The names have the rules of
// docs/decisions/0053-stream.md and docs/decisions/0054-archive.md.
func archiveBugs() []bug {
	const (
		tap      = "internal/disk/tap.go"
		position = "internal/stream/position.go"
		open     = "internal/stream/open.go"
		intake   = "internal/archiving/intake.go"
		logs     = "internal/follow/open.go"
		files    = "internal/restore/files.go"
		restores = "internal/restore/restore.go"
	)
	return []bug{
		{ofArchive + "a log that is used again not reported (S1)", "archive", []edit{{tap, `	f, err := l.FS.ReuseForWrite(oldname, newname, category)
	return l.begin(newname, f, err)`, `	return l.FS.ReuseForWrite(oldname, newname, category)`}}},
		{ofArchive + "one place for both stores (S2)", "archive", []edit{{position, `return p.With(f.Store, f.End())`, `return Position{f.End(), f.End()}`}}},
		{ofArchive + "a log gone before its bytes are kept (S4)", "archive", []edit{{tap, `goes := l.tap.MayGo(n)`, `goes := n > 0`}, {tap, `is && !l.tap.MayGo(n)`, `is && n == 0`}}},
		{ofArchive + "frames dropped without a gap (S5)", "archive", []edit{{intake, `Gap: true, Frames`, `Frames`}}},
		{ofArchive + "the rest of the logs not handed on (S7)", "archive", []edit{{logs, `if errors.Is(err, fs.ErrNotExist) {`, `if err == nil || errors.Is(err, fs.ErrNotExist) {`}}},
		{ofArchive + "the place of the spool lost at a start (S7)", "archive", []edit{{open, `s.begin, s.first = s.spool.batches[n-1].end, s.spool.batches[n-1].behind()`, `s.first = s.spool.batches[n-1].behind()`}}},
		{ofArchive + "a restore that ignores where its parent is cut (A6)", "archive", []edit{{restores, `if !link.Cut || frame.Store`, `if !link.Cut || true || frame.Store`}}},
		{ofArchive + "a damaged file restored", "archive", []edit{{files, `n != file.Bytes || hex.`, `n != file.Bytes && hex.`}}},
	}
}
