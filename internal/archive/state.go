package archive

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"fanfare/internal/datadir"
	"fanfare/internal/stream"
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
	// Took is the newest term that the directory got. Asked is the newest term that the directory
	// asked for. Both are 0 for none.
	Took  uint64 `json:"took"`
	Asked uint64 `json:"asked"`
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

	path string
}

// LoadState reads the state of the data directory dir. A directory without a state gets one, with a
// lineage and a node of its own.
func LoadState(dir string) (*State, error) {
	path := filepath.Join(dir, StateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		s := NewState(dir, rand.Text())
		return s, s.Save()
	}
	if err != nil {
		return nil, fmt.Errorf("read the archive's state of the data directory: %w", err)
	}
	s := &State{path: path}
	if err := readKnown(text, path, stateFormat, s); err != nil {
		return nil, err
	}
	if s.Lineage == "" || s.Node == "" {
		return nil, fmt.Errorf("%s is damaged: it lacks lineage or node: restore the directory from its archive", path)
	}
	return s, nil
}

// NewState returns the state of the data directory dir with data of a lineage. The caller has to
// save the state.
func NewState(dir, lineage string) *State {
	return &State{Lineage: lineage, Node: rand.Text(), path: filepath.Join(dir, StateFile)}
}

// Save stores the state. After a crash the file has the old or the new state.
func (s *State) Save() error {
	s.Format = loneStateFormat
	if s.Disk != "" {
		s.Format = stateFormat
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := datadir.WriteFile(s.path, append(text, '\n')); err != nil {
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
		Lineage: s.Lineage, Node: s.Node, Took: s.Took, Asked: s.Asked, At: at, Version: version, DataFormat: dataFormat,
		Keep: func(asked uint64) error {
			s.Asked = asked
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

// Take stores that the directory got a term.
func (s *State) Take(term Term) error {
	s.Took, s.Lineage, s.Ended = term.Number, term.Lineage, nil
	s.Followed, s.Restored, s.Disk = Parent{}, Position{}, ""
	return s.Save()
}
