package disk

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// FormatError is the refusal of data that a newer version of Fanfare wrote.
type FormatError struct {
	// Data names the data.
	Data string
	// Found is the format of the data, Known the newest format that this version reads.
	Found, Known int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format %d, but this version of fanfare reads formats up to %d: use a newer fanfare", e.Data, e.Found, e.Known)
}

// CheckFormat is the one rule for the formats of stored data. It refuses a newer format with a
// *FormatError and accepts an older format. If the format was older, the caller stores the
// known format before other writes, so that an older program does not misread the data later.
func CheckFormat(data, stored string, known int) error {
	found, err := strconv.Atoi(stored)
	switch {
	case err != nil || found < 1:
		return fmt.Errorf("%s has the format %q, which no fanfare wrote: choose another directory, or restore this one from a backup", data, stored)
	case found > known:
		return &FormatError{Data: data, Found: found, Known: known}
	}
	return nil
}

// Format is the format of a store's keys and values.
type Format struct {
	// Key is where the store keeps its format.
	Key []byte
	// Known is the format that this version writes. It is also the newest format that this version reads.
	Known int
	// OneByte stores the format as a single byte instead of digits.
	OneByte bool
}

// check applies CheckFormat to a store, and stores the format of a new store.
func (f Format) check(db *pebble.DB, writes Writes) error {
	value, closer, err := db.Get(f.Key)
	if err == nil {
		stored := string(value)
		if f.OneByte && len(value) == 1 {
			stored = strconv.Itoa(int(value[0]))
		}
		if err := errors.Join(CheckFormat("the store", stored, f.Known), closer.Close()); err != nil || stored == strconv.Itoa(f.Known) {
			return err
		}
	} else if !errors.Is(err, pebble.ErrNotFound) {
		return err
	}
	written := []byte(strconv.Itoa(f.Known))
	if f.OneByte {
		written = []byte{byte(f.Known)}
	}
	if writes == Unlogged {
		return db.Set(f.Key, written, pebble.NoSync)
	}
	return db.Set(f.Key, written, pebble.Sync)
}

// CheckStore refuses a store with files of a newer Pebble. It changes nothing, and the store may be in use.
func CheckStore(dir string) error { return checkPebble(vfs.Default, dir) }

// checkPebble refuses files of a Pebble that is newer than this version's Pebble. Pebble would
// also refuse such files, but with an error text of its own.
func checkPebble(fs vfs.FS, dir string) error {
	stored, err := atomicfs.ReadMarker(fs, dir, "format-version")
	if err != nil || stored == "" { // a new directory has no marker
		return err
	}
	return CheckFormat("the Pebble store", stored, int(pebble.FormatNewest))
}

// damagedOptions returns the error of a store whose newest file of options Pebble refuses, nil for any other store. All stores have the
// same comparer, merger and directory of logs, so other names in the file are damage.
func damagedOptions(fs vfs.FS, dir string) error {
	found, err := pebble.Peek(dir, fs)
	if err != nil || found.OptionsFilename == "" {
		return nil //nolint:nilerr // the error of Open names the cause
	}
	text, err := ReadFile(fs, found.OptionsFilename)
	if err == nil {
		options := &pebble.Options{}
		options.EnsureDefaults()
		err = options.CheckCompatibility(dir, string(text))
	}
	if err == nil {
		return nil
	}
	return &optionsError{found.OptionsFilename, err}
}

// optionsError is the refusal of a damaged file of options. It is an ErrDamaged, but no data are.
type optionsError struct {
	name  string
	cause error
}

func (e *optionsError) Error() string {
	return fmt.Sprintf("%s has text that no fanfare wrote; no data depend on the file: move the file away, and start again (%v)", e.name, e.cause)
}

func (e *optionsError) Unwrap() []error { return []error{ErrDamaged, e.cause} }
