package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fanfare/internal/disk"
	"fanfare/internal/strictjson"
)

// termFormat is the format of a term that this version writes, and the newest format that it
// reads.
const termFormat = 1

// maxTerm is above the size of a term's object.
const maxTerm = 64 << 10

// Term is the time of one writer: from its start to the start of the next writer.
type Term struct {
	Format int    `json:"format"`
	Number uint64 `json:"term"`
	// Parent is the place at which the term continues. Bytes of the parent's segments beyond it
	// are void.
	Parent Parent `json:"parent"`
	// From is the start of the first segment, by the logs of the term's own directory.
	From Position `json:"from"`
	// Lineage names the data, Node the data directory. Copies of a directory by a restore share
	// the lineage.
	Lineage string `json:"lineage"`
	Node    string `json:"node"`
	// Version is the version of the program, DataFormat the format of the directory.
	Version    string `json:"version"`
	DataFormat int    `json:"data_format"`
	// Nonce differs between two tries that are equal otherwise, and names the writer in its
	// segments.
	Nonce string    `json:"nonce"`
	At    time.Time `json:"at"`
}

// Parent is a place in the stream of the term before. Term is 0 if there is none.
type Parent struct {
	Term uint64 `json:"term"`
	Position
}

func (t Term) encode() ([]byte, error) {
	t.Format = termFormat
	if err := t.check(); err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

// decodeTerm reads the object of the term of a number.
func decodeTerm(text []byte, number uint64) (t Term, err error) {
	data := "term " + strconv.FormatUint(number, 16) + " of the archive"
	if err := readKnown(text, data, termFormat, &t); err != nil {
		return Term{}, err
	}
	if err := t.check(); err != nil {
		return Term{}, fmt.Errorf("%s is damaged: %w", data, err)
	}
	if t.Number != number {
		return Term{}, fmt.Errorf("%s is damaged: it is the object of term %x", data, t.Number)
	}
	return t, nil
}

func (t Term) check() error {
	switch {
	case t.Number == 0:
		return errors.New("its number is 0")
	case t.Parent.Term >= t.Number:
		return fmt.Errorf("its parent is term %x", t.Parent.Term)
	case t.Lineage == "" || t.Node == "" || t.Nonce == "":
		return errors.New("it lacks lineage, node or nonce")
	case len(t.Nonce) > nonceBytes:
		return fmt.Errorf("its nonce is longer than %d bytes", nonceBytes)
	case t.DataFormat < 1:
		return fmt.Errorf("its data has format %d", t.DataFormat)
	}
	return nil
}

// readKnown reads a text of JSON with a member "format". A newer format is refused before its
// unknown members are, so that the reader learns the reason.
func readKnown(text []byte, data string, known int, v any) error {
	var form struct {
		Format int `json:"format"`
	}
	if err := strictjson.Unmarshal(text, &form); err != nil {
		return fmt.Errorf("%s is damaged: it %w", data, err)
	}
	if err := disk.CheckFormat(data, strconv.Itoa(form.Format), known); err != nil {
		return err
	}
	if err := strictjson.UnmarshalKnown(text, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", data, err)
	}
	return nil
}
