package archive

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fanfare/internal/datadir"
	"fanfare/internal/stream"
	"fanfare/internal/strictjson"
)

// StateFile is the name of the state's file in the data directory. A base and a backup do not
// have this file, because each directory has its own state.
const StateFile = "archive.json"

const (
	// stateFormat is the newest format of a state that this version reads. It is the format of a state with a disk.
	stateFormat = 2
	// loneStateFormat is the format of a state without a disk, which older versions read, too.
	loneStateFormat = 1
)

// State is the archive's own state of a data directory. Only the process that holds the lock of
// the directory may use it. The zero value is not valid.
type State struct {
	Format int `json:"format"`
	// Lineage names the data, and Node names the directory. A restored directory has the lineage
	// of its archive, and a node of its own.
	Lineage string `json:"lineage"`
	Node    string `json:"node"`
	// Took is the newest term that the directory got, 0 for none. Asked are the nonces of that term and of the terms
	// that the directory asked for since.
	Took  uint64   `json:"took"`
	Asked []string `json:"asked"`
	// Followed is the place up to which a restore has the stream of another directory. Its term is
	// 0 if the directory was not restored from an archive.
	Followed Parent `json:"followed"`
	// Restored is the end of the directory's own logs when the restore ended. A later end means
	// that the directory got writes that no archive has.
	Restored Position `json:"restored"`
	// Disk is the disk of the primary that the directory has followed as its standby, up to Followed. It is empty if the
	// directory was no standby.
	Disk string `json:"disk,omitempty"`
	// Ended is the end of the logs at the first start after the term Took, nil before that start.
	// The archive cannot have more of that term, so more means that the directory is an old copy.
	Ended *Position `json:"ended,omitempty"`
	// End is the number of the seal with which the process of the term Took ended that term, 0 if it did not end it in order.
	End uint64 `json:"end,omitempty"`
	// Print is the print of the directory when it got the term Took, or when this state was made. A copy of the directory differs.
	Print *datadir.Print `json:"print,omitempty"`

	path string
	// nonce is the nonce of the term that this process asks for.
	nonce string
	here  *datadir.Print // the present print of the directory
}

// LoadState reads the state of the data directory dir. A directory without a state gets one, with a
// lineage and a node of its own.
func LoadState(dir string) (*State, error) {
	path := filepath.Join(dir, StateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		s, err := NewState(dir, rand.Text())
		return s, errors.Join(err, s.Save())
	}
	if err != nil {
		return nil, fmt.Errorf("read the archive's state of the data directory: %w", err)
	}
	s, err := decodeState(text, path)
	if err != nil {
		return nil, err
	}
	s.nonce = rand.Text()
	s.here, err = datadir.PrintOf(dir)
	return s, err
}

// ReadState reads the state of the data directory dir, which may be in use, and changes nothing. It returns nil if there is no state.
func ReadState(dir string) (*State, error) {
	path := filepath.Join(dir, StateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a directory without an archive
	}
	if err != nil {
		return nil, fmt.Errorf("read the archive's state of the data directory: %w", err)
	}
	return decodeState(text, path)
}

func decodeState(text []byte, path string) (*State, error) {
	s := &State{path: path}
	if err := readSummed(text, path, stateFormat, s); err != nil {
		return nil, err
	}
	if s.Lineage == "" || s.Node == "" {
		return nil, fmt.Errorf("%s is damaged: it lacks lineage or node: restore the directory from its archive", path)
	}
	return s, nil
}

// NewState returns the state of the data directory dir with data of a lineage. The caller has to
// save the state.
func NewState(dir, lineage string) (*State, error) {
	here, err := datadir.PrintOf(dir)
	return &State{Lineage: lineage, Node: rand.Text(), Asked: []string{}, path: filepath.Join(dir, StateFile), nonce: rand.Text(), here: here, Print: here}, err
}

// Save stores the state. After a crash the file has the old or the new state.
func (s *State) Save() error {
	s.Format = loneStateFormat
	if s.Disk != "" {
		s.Format = stateFormat
	}
	text, err := strictjson.MarshalSummed(s)
	if err != nil {
		return err
	}
	if err := datadir.WriteFile(s.path, text); err != nil {
		return fmt.Errorf("store the archive's state of the data directory: %w", err)
	}
	return nil
}

// Begin stores where the logs of the directory end at a start. Call Begin before Pebble opens the
// stores.
func (s *State) Begin(at stream.Position) error {
	if s.Ended != nil {
		return nil
	}
	s.Ended = new(Position(at))
	return s.Save()
}

// Start returns the directory that asks for its next term. The logs of the directory end at a position.
func (s *State) Start(at stream.Position, version string, dataFormat int) Start {
	start := Start{
		Lineage: s.Lineage, Node: s.Node, Took: s.Took, At: at, Logs: at, Version: version, DataFormat: dataFormat, Nonce: s.nonce, Likeness: datadir.Compare(s.Print, s.here),
		Asked: func(nonce string) bool { return slices.Contains(s.Asked, nonce) },
		Keep: func() error {
			if slices.Contains(s.Asked, s.nonce) {
				return nil
			}
			s.Asked = append(s.Asked, s.nonce)
			return s.Save()
		},
	}
	if s.Ended != nil {
		start.At = s.Ended.stream()
	}
	if s.Restored.stream() == start.At {
		start.Followed, start.Disk = s.Followed, s.Disk
	}
	return start
}

// Sealed stores the number of the seal of the term Took.
func (s *State) Sealed(n uint64) error {
	s.End = n
	return s.Save()
}

// Take stores that the directory got a term.
func (s *State) Take(term Term) error {
	s.Took, s.Asked, s.Lineage, s.Ended, s.Print = term.Number, []string{term.Nonce}, term.Lineage, nil, s.here
	s.Followed, s.Restored, s.Disk, s.End = Parent{}, Position{}, "", 0
	return s.Save()
}
