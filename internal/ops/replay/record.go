package replay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"fanfare/internal/strictjson"
)

// The calls of a run that change data.
const (
	callProfile = "profile"
	callFollow  = "follow"
	callPost    = "post"
	callLike    = "like"
	callAway    = "away"
)

// entry is one line of a journal. The first line is the header. Each call has a line with
// Call from before it was sent, and a line with OK or Error from after it ended. A call
// without the second line, or with an Error, may have had its effect or not.
type entry struct {
	Version int    `json:"version,omitempty"` // header
	N       int    `json:"n,omitempty"`
	Call    string `json:"call,omitempty"`
	User    string `json:"user,omitempty"`   // the caller
	Object  string `json:"object,omitempty"` // the author followed, the post's text, the post liked
	OK      bool   `json:"ok,omitempty"`
	Kind    string `json:"kind,omitempty"` // of the reaction; a like has none
	ID      string `json:"id,omitempty"`   // the new post
	Error   string `json:"error,omitempty"`
}

const journalVersion = 1

// maxLine bounds a line of a journal, in bytes.
const maxLine = 1 << 20

// record keeps calls and answers in memory and, if it has a journal, in a file. Each line is
// written at once, so the file survives a crash of this process, but not a loss of power.
type record struct {
	mu    sync.Mutex
	file  *os.File
	calls []entry // N is the index + 1; OK and ID are the answer's
	open  int
}

// newRecord begins a record, with a journal if file is not "".
func newRecord(file string) (*record, error) {
	r := &record{}
	if file == "" {
		return r, nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: journal %s exists: verify it with --check, or give another file", ErrUsage, file)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	r.file = f
	if err := r.write(entry{Version: journalVersion}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *record) write(e entry) error {
	if r.file == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// intend records a call before it is sent.
func (r *record) intend(e entry) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.N = len(r.calls) + 1
	if err := r.write(e); err != nil {
		return 0, err
	}
	r.calls = append(r.calls, e)
	r.open++
	return e.N, nil
}

// answer records the end of a call.
func (r *record) answer(n int, id string, failed error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed != nil {
		return r.write(entry{N: n, Error: failed.Error()})
	}
	r.calls[n-1].OK, r.calls[n-1].ID = true, id
	r.open--
	return r.write(entry{N: n, OK: true, ID: id})
}

// count returns the numbers of answered and unanswered calls.
func (r *record) count() (answered, open int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls) - r.open, r.open
}

func (r *record) close() error {
	if r.file == nil {
		return nil
	}
	if err := errors.Join(r.file.Sync(), r.file.Close()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func (r *record) facts() *facts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return factsOf(r.calls)
}

// readJournal reads the calls of a journal. If the last line is incomplete, the process
// died during its write: the call was not sent yet, or its answer is unknown.
func readJournal(file string) ([]entry, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	return parseJournal(f, file)
}

func parseJournal(in io.Reader, file string) ([]entry, error) {
	var calls []entry
	lines := bufio.NewReaderSize(in, maxLine)
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			if number == 1 {
				return nil, fmt.Errorf("%s is not a journal of this command", file)
			}
			return calls, nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("%s:%d: is longer than %d bytes", file, number, maxLine)
		}
		if err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
		var e entry
		if err := strictjson.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		switch {
		case number == 1:
			if e.Version != journalVersion {
				return nil, fmt.Errorf("%s is a journal of version %d, but this command reads version %d", file, e.Version, journalVersion)
			}
		case e.Call != "" && e.N == len(calls)+1:
			e.OK, e.ID = false, ""
			calls = append(calls, e)
		case e.Call == "" && e.N >= 1 && e.N <= len(calls):
			if e.OK {
				calls[e.N-1].OK, calls[e.N-1].ID = true, e.ID
			}
		default:
			return nil, fmt.Errorf("%s:%d: call %d is out of order", file, number, e.N)
		}
	}
}
