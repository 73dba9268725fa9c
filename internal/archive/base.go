package archive

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// baseFormat is the format of the list of a base that this version writes, and the newest format
// that it reads.
const baseFormat = 1

// MaxBase is above the size of the list of a base.
const MaxBase = 64 << 20

// Base is the list of the files that a restore begins with. The files were copied beside the
// traffic, so a restore applies the segments from First on up to To at least.
type Base struct {
	Format int `json:"format"`
	// DataFormat is the format of the data directory.
	DataFormat int       `json:"data_format"`
	MadeAt     time.Time `json:"made_at"`
	Version    string    `json:"version"`
	Lineage    string    `json:"lineage"`
	Term       uint64    `json:"term"`
	// First is the first segment of the term that has bytes after From.
	First uint64 `json:"first"`
	// From is the position before the copy began, To the position after its end.
	From  Position `json:"from"`
	To    Position `json:"to"`
	Files []File   `json:"files"`
}

// File is a file of a base.
type File struct {
	// Name is its path in the data directory, with slashes.
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Encode returns the object of a list.
func (b Base) Encode() ([]byte, error) {
	b.Format = baseFormat
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("the base cannot be written: %w", err)
	}
	return json.Marshal(b)
}

// DecodeBase reads the object of a list.
func DecodeBase(text []byte, term, first uint64) (b Base, err error) {
	data := "base " + BaseName(term, first) + " of the archive"
	if err := readKnown(text, data, baseFormat, &b); err != nil {
		return Base{}, err
	}
	if err := b.check(); err != nil {
		return Base{}, fmt.Errorf("%s is damaged: %w", data, err)
	}
	if b.Term != term || b.First != first {
		return Base{}, fmt.Errorf("%s is damaged: it is the list of %s", data, BaseName(b.Term, b.First))
	}
	return b, nil
}

func (b Base) check() error {
	switch {
	case b.Term == 0 || b.First == 0 || b.First > maxSegment:
		return errors.New("its numbers are out of range")
	case b.Lineage == "":
		return errors.New("it lacks its lineage")
	case b.DataFormat < 1:
		return fmt.Errorf("its data has format %d", b.DataFormat)
	case !b.To.stream().Covers(b.From.stream()):
		return errors.New("it ends before it begins")
	}
	seen := make(map[string]bool, len(b.Files))
	for _, f := range b.Files {
		// A restore makes files of these names: none may lie outside of the data directory.
		if !fs.ValidPath(f.Name) || f.Name == "." || strings.ContainsAny(f.Name, "\\\x00") || seen[f.Name] {
			return fmt.Errorf("it has a file %q", f.Name)
		}
		seen[f.Name] = true
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != 32 || strings.ToLower(f.SHA256) != f.SHA256 || f.Bytes < 0 {
			return fmt.Errorf("its file %s has the SHA-256 %q and %d bytes", f.Name, f.SHA256, f.Bytes)
		}
	}
	return nil
}
