package archive

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"fanfare/internal/strictjson"
)

// baseFormat is the format of a base's list that this version writes. It is also the newest
// format that this version reads.
const baseFormat = 1

// MaxBase is larger than any list of a base.
const MaxBase = 64 << 20

// mostBytes is more than the files of any base have together, so that no sum of sizes overflows.
const mostBytes = 1 << 60

// Base is the list of the files with which a restore begins. Writes continued while the files
// were copied, so a restore has to apply the segments from First on, at least up to To.
type Base struct {
	Format int `json:"format"`
	// DataFormat is the format of the data directory.
	DataFormat int `json:"data_format"`
	// MadeAt is the time at which the files were copied. No frame before To is later.
	MadeAt  time.Time `json:"made_at"`
	Version string    `json:"version"`
	Lineage string    `json:"lineage"`
	Term    uint64    `json:"term"`
	// First is the segment of the term with the first bytes after From, or a segment before it.
	First uint64 `json:"first"`
	// From is the position before the copy began. To is the position after the copy ended.
	From  Position `json:"from"`
	To    Position `json:"to"`
	Files []File   `json:"files"`
}

// File is a file of a base.
type File struct {
	// Name is the path of the file in the data directory, with slashes.
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Encode returns the list as the content of an object.
func (b Base) Encode() ([]byte, error) {
	b.Format = baseFormat
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("the base cannot be written: %w", err)
	}
	return strictjson.MarshalSummed(b)
}

// DecodeBase reads the list from the content of an object.
func DecodeBase(text []byte, term, first uint64) (b Base, err error) {
	data := "base " + BaseName(term, first) + " of the archive"
	if err := readSummed(text, data, baseFormat, &b); err != nil {
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
	seen, room := make(map[string]bool, len(b.Files)), int64(mostBytes)
	for _, f := range b.Files {
		// A restore creates files with these names, so no name may be outside the data directory.
		if !fs.ValidPath(f.Name) || f.Name == "." || strings.ContainsAny(f.Name, "\\\x00") || seen[f.Name] {
			return fmt.Errorf("it has a file %q", f.Name)
		}
		seen[f.Name] = true
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != 32 || strings.ToLower(f.SHA256) != f.SHA256 || f.Bytes < 0 {
			return fmt.Errorf("its file %s has the SHA-256 %q and %d bytes", f.Name, f.SHA256, f.Bytes)
		}
		if f.Bytes > room {
			return fmt.Errorf("its files have more than %d bytes", int64(mostBytes))
		}
		room -= f.Bytes
	}
	return nil
}
