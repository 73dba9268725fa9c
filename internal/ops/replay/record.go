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

// The names of the calls that change data.
const (
	callProfile = "profile"
	callFollow  = "follow"
	callPost    = "post"
	callLike    = "like"
	callAway    = "away"
)

// entry is one line of a journal. The first line is the header. Each call has a line with
// Call, which is written before the call is sent, and a line with OK or Error, which is
// written after the call has ended. If the second line is missing or has an Error, nobody
// knows whether the call had its effect.
type entry struct {
	Version int    `json:"version,omitempty"` // only in the header
	N       int    `json:"n,omitempty"`
	Call    string `json:"call,omitempty"`
	User    string `json:"user,omitempty"`   // the user who made the call
	Object  string `json:"object,omitempty"` // the followed author, the text of the post, or the id of the liked post
	OK      bool   `json:"ok,omitempty"`
	Kind    string `json:"kind,omitempty"` // the kind of the reaction; "" for a like
	ID      string `json:"id,omitempty"`   // the id of the new post
	Error   string `json:"error,omitempty"`
}

const journalVersion = 1

// maxLine is the maximum length of a line of a journal, in bytes.
const maxLine = 1 << 20

// record keeps calls and answers in memory and, if it has a journal, in a file. Each line is written
// to the file at once, so the file survives a crash of this process, but not a loss of power.
type record struct {
	mu    sync.Mutex
	file  *os.File
	calls []entry // N is the index plus 1; OK and ID come from the answer
	open  int
}

// newRecord begins a record. If file is not "", the record has a journal.
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

// intend records a call before the call is sent.
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

// count returns the number of answered calls and the number of unanswered calls.
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
// died during the write of this line: the call was not sent yet, or its answer is unknown.
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
