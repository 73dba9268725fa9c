package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// needsFile is the name of the list of the files that a store must have. Pebble takes an absent file for a new one, and a
// file that ends too early for the work of a crash. The list tells these cases apart: Pebble removes a log only after the
// store has written down which bytes of the manifest make the log unnecessary.
const needsFile = "NEEDS"

// needs is the list. It is written as a whole, so a crash leaves the former list or the next one.
type needs struct {
	// Manifest is a manifest that the store had as its current one. A later one may be current.
	Manifest needed `json:"manifest"`
	// Logs are the logs that Pebble has not given up, and logs that a tap needs.
	Logs []needed `json:"logs"`
}

// needed is a file and the part of it that must be there.
type needed struct {
	Name string `json:"name"`
	// Whole means that the first Bytes bytes of the file have the checksum Sum. Otherwise only the name is known: a log
	// is written until its store is closed or begins another log.
	Whole bool   `json:"whole"`
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"sum"`
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // the package keeps one

// DamageError is the refusal of a store that lacks a file or bytes that it needs. It is an ErrDamaged.
type DamageError struct {
	// Name is the path of the file, and Reason names the damage.
	Name, Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s %s, so answered writes may be missing; nothing was removed. Bring the file back if you have it, restore the data directory from its archive or from a backup, or promote the other machine of a pair", e.Name, e.Reason)
}

func (e *DamageError) Unwrap() error { return ErrDamaged }

// readNeeds returns the list of the store in dir. The error is fs.ErrNotExist if the store has none.
func readNeeds(fsys vfs.FS, dir string) (list needs, err error) {
	name := fsys.PathJoin(dir, needsFile)
	text, err := ReadFile(fsys, name)
	if err != nil {
		return list, err
	}
	sum, body, _ := strings.Cut(string(text), "\n")
	if sum != checksum(body) || json.Unmarshal([]byte(body), &list) != nil {
		return list, &DamageError{name, "has bytes that no fanfare wrote"}
	}
	return list, nil
}

func checksum(text string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(text), castagnoli()))
}

// write stores the list. After a crash the file has this list or the previous one.
func (n needs) write(fsys vfs.FS, dir string) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	text := checksum(string(body)) + "\n" + string(body)
	if err := WriteFile(fsys, fsys.PathJoin(dir, needsFile), []byte(text)); err != nil {
		return fmt.Errorf("write the list of the files of a store: %w", err)
	}
	return nil
}

// check returns an error if the store in dir lacks a file of the list, or a part of its manifest. The bytes of a log are
// compared when Pebble reads the log, because Pebble does not read all logs.
func (n needs) check(fsys vfs.FS, dir string) error {
	current, err := currentManifest(fsys, dir)
	if err != nil {
		return err
	}
	if fileNumber(current) < fileNumber(n.Manifest.Name) {
		return &DamageError{fsys.PathJoin(dir, "marker.manifest"), "names " + current + ", but the store has had " + n.Manifest.Name}
	}
	if current == n.Manifest.Name {
		if err := n.Manifest.compare(fsys, dir); err != nil {
			return err
		}
	}
	for _, log := range n.Logs {
		name := fsys.PathJoin(dir, log.Name)
		info, err := fsys.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &DamageError{name, "is absent"}
		case err != nil:
			return err
		case info.Size() < log.Bytes:
			return &DamageError{name, fmt.Sprintf("has %d bytes of %d", info.Size(), log.Bytes)}
		}
	}
	return nil
}

// CompareLogs returns an error if a log of the store in dir lacks a byte that the store is known to have written. Whoever hands a log to another
// machine or to an archive before the store is open compares it first: Open refuses the store too late for them.
func CompareLogs(fsys vfs.FS, dir string) error {
	list, err := readNeeds(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) { // a new store; Open refuses any other one
		return nil
	}
	if err != nil {
		return err
	}
	for _, log := range list.Logs {
		if err := log.compareLog(fsys, dir); err != nil {
			return err
		}
	}
	return nil
}

// currentManifest returns the name of the manifest that Pebble reads.
func currentManifest(fsys vfs.FS, dir string) (string, error) {
	for _, marker := range []string{"format-version", "manifest"} {
		value, err := atomicfs.ReadMarker(fsys, dir, marker)
		name := fsys.PathJoin(dir, "marker."+marker)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", &DamageError{dir, "is absent"}
		case err != nil:
			return "", fmt.Errorf("%w: %w", &DamageError{name, "cannot be read"}, err)
		case value == "":
			return "", &DamageError{name, "is absent"}
		case marker == "manifest":
			return value, nil
		}
	}
	return "", nil
}

// compare returns an error if the file lacks a byte that it must have.
func (n needed) compare(fsys vfs.FS, dir string) error {
	name := fsys.PathJoin(dir, n.Name)
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &DamageError{name, "is absent"}
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	sum := crc32.New(castagnoli())
	read, err := io.CopyBuffer(sum, io.LimitReader(f, n.Bytes), make([]byte, 256<<10))
	switch {
	case err != nil:
		return err
	case read < n.Bytes:
		return &DamageError{name, fmt.Sprintf("has %d bytes of %d", read, n.Bytes)}
	case sum.Sum32() != n.Sum:
		return &DamageError{name, "has other bytes than the store wrote"}
	}
	return nil
}

// Adopt writes the list of the files of a store that has no list of its own: a copy whose maker has compared its files, or a store
// of an earlier version. Adopt never takes a directory without a store for a new one.
func Adopt(fsys vfs.FS, dir string) error {
	current, err := currentManifest(fsys, dir)
	if err != nil {
		return err
	}
	list := needs{}
	if list.Manifest, err = measure(fsys, dir, current); err != nil {
		return err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			list.Logs = append(list.Logs, needed{Name: name})
		}
	}
	return list.write(fsys, dir)
}

// AdoptUnlisted calls Adopt for a store without a list.
func AdoptUnlisted(fsys vfs.FS, dir string) error {
	if _, err := readNeeds(fsys, dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Adopt(fsys, dir)
}

// measure returns a manifest with its present size. A manifest that ends inside a record is refused: nobody knows
// whether a crash cut its last record or damage.
func measure(fsys vfs.FS, dir, name string) (n needed, err error) {
	path := fsys.PathJoin(dir, name)
	f, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return n, &DamageError{path, "is absent"}
	}
	if err != nil {
		return n, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	sum := crc32.New(castagnoli())
	counted := &counter{r: io.TeeReader(f, sum)}
	records := record.NewReader(counted, 0)
	for {
		r, err := records.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, fmt.Errorf("%w: %w", &DamageError{path, "ends inside a record"}, err)
		}
	}
	return needed{Name: name, Whole: true, Bytes: counted.n, Sum: sum.Sum32()}, nil
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// fileNumber returns the number in the name of a log or a manifest, 0 for any other file.
func fileNumber(name string) uint64 {
	digits, isManifest := strings.CutPrefix(name, "MANIFEST-")
	if !isManifest {
		var isLog bool
		if digits, isLog = strings.CutSuffix(name, ".log"); !isLog {
			return 0
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
