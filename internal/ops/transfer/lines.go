package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// place names a line of a file. begin is the offset of the line.
type place struct {
	file  string
	line  int
	begin int64
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// maxLine is the maximum length of a line, in bytes.
const maxLine = 1 << 20

// CheckFiles returns an error unless all files can be read more than once.
func CheckFiles(files []string) error {
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file: an import reads its files several times, so store the lines in a file first", name)
		}
	}
	return nil
}

// eachLine calls visit with each line of the files, in order. The bytes of a line are valid
// until visit returns. Empty lines are skipped.
func eachLine(ctx context.Context, files []string, visit func(at place, line []byte) error) error {
	for _, name := range files {
		if err := linesOf(ctx, name, visit); err != nil {
			return err
		}
	}
	return nil
}

func linesOf(ctx context.Context, name string, visit func(at place, line []byte) error) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	at, next := place{file: name}, int64(0)
	in.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, atEOF)
		if line != nil {
			at.begin = next
		}
		next += int64(n)
		return n, line, err
	})
	for in.Scan() {
		at.line++
		if line := bytes.TrimSpace(in.Bytes()); len(line) > 0 {
			if err := visit(at, line); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s:%d: is longer than %d bytes: is it JSON lines?", name, at.line+1, maxLine)
	}
	return in.Err()
}

// read reads a line again.
func (p place) read(now time.Time) (r record, err error) {
	f, err := os.Open(p.file)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Seek(p.begin, io.SeekStart); err != nil {
		return r, err
	}
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	in.Scan()
	if err := in.Err(); err != nil {
		return r, err
	}
	r, faults := parse(bytes.TrimSpace(in.Bytes()), now)
	if len(faults) > 0 {
		err = p.changed()
	}
	return r, err
}

// changed is the error of a line that was without a fault at first.
func (p place) changed() error { return fmt.Errorf("%s has changed since it was checked", p) }
