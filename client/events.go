package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxEvent bounds an event of a stream, in bytes.
const maxEvent = 1 << 20

// block has the fields of the lines up to an empty line. Lines of data are joined.
type block struct {
	event, id string
	data      strings.Builder
	hasData   bool
}

// blocks reads server-sent events by the rules of the HTML standard. It calls heard for each line, and visit for each
// block. Its error is never nil.
func blocks(in io.Reader, heard func(), visit func(block) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxEvent)
	lines.Split(splitLines())
	for b, first := (block{}), true; lines.Scan(); first = false {
		heard()
		line := lines.Text()
		if first {
			line = strings.TrimPrefix(line, "\ufeff") // a byte order mark
		}
		if line != "" {
			b.add(line)
			if b.data.Len() > maxEvent {
				return errTooLarge
			}
			continue
		}
		if err := visit(b); err != nil {
			return err
		}
		b = block{}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return errTooLarge
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	return io.ErrUnexpectedEOF
}

var errTooLarge = fmt.Errorf("an event is larger than %d bytes", maxEvent)

// add adds the field of a line.
func (b *block) add(line string) {
	field, value, _ := strings.Cut(line, ":") // the field of a comment is empty
	switch value = strings.TrimPrefix(value, " "); field {
	case "event":
		b.event = value
	case "id":
		if !strings.Contains(value, "\x00") {
			b.id = value
		}
	case "data":
		if b.hasData {
			b.data.WriteByte('\n')
		}
		b.data.WriteString(value)
		b.hasData = true
	}
}

// splitLines splits at CRLF, LF and CR. It returns a line at its CR, although a LF may follow.
func splitLines() bufio.SplitFunc {
	returned := false // the last byte was a CR
	return func(data []byte, _ bool) (advance int, line []byte, err error) {
		if len(data) > 0 && returned {
			returned = false
			if data[0] == '\n' {
				advance, data = 1, data[1:]
			}
		}
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			return advance, nil, nil
		}
		returned = data[end] == '\r'
		return advance + end + 1, data[:end], nil
	}
}
