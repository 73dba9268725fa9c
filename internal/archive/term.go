package archive

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"fanfare/internal/disk"
	"fanfare/internal/strictjson"
)

const (
	// termFormat is the newest format of a term that this version reads. It is the format of a term of a pair.
	termFormat = 2
	// loneFormat is the format of a term without a pair, which older versions read, too.
	loneFormat = 1
)

// maxTerm is larger than any object of a term.
const maxTerm = 64 << 10

// Term is the time of one writer: from its start to the start of the next writer.
type Term struct {
	Format int    `json:"format"`
	Number uint64 `json:"term"`
	// Parent is the place at which the term continues. The bytes of the parent's segments after
	// that place do not count.
	Parent Parent `json:"parent"`
	// From is the start of the first segment. Its log numbers belong to the term's own directory.
	From Position `json:"from"`
	// Lineage names the data, and Node names the data directory. A directory and its restored
	// copies have the same lineage.
	Lineage string `json:"lineage"`
	Node    string `json:"node"`
	// Version is the version of the program. DataFormat is the format of the directory.
	Version    string `json:"version"`
	DataFormat int    `json:"data_format"`
	// Nonce differs between two tries that are equal otherwise. The segments name their writer by the nonce.
	Nonce string    `json:"nonce"`
	At    time.Time `json:"at"`
	// Pair is the writer's place in its pair of machines, nil without a pair.
	Pair *Pair `json:"pair,omitempty"`
}

// Pair is the place of a machine in a pair of machines, while the machine is the primary.
type Pair struct {
	// Lineage names the pair.
	Lineage string `json:"lineage"`
	// Term is the term of the pair, which grows with each change of the primary: a term has one machine.
	Term uint64 `json:"term"`
	// Disk names the machine's disk, in whose logs the positions are.
	Disk string `json:"disk"`
}

// format returns the format of a term of the machine.
func (p *Pair) format() int {
	if p == nil {
		return loneFormat
	}
	return termFormat
}

// reigns reports whether the machine may end the writer of a term, which is a machine of the same pair.
func (p *Pair) reigns(writer *Pair) bool { return p.knows(writer) && p.Term >= writer.Term }

// knows reports whether both are machines of the same pair.
func (p *Pair) knows(other *Pair) bool { return p != nil && other != nil && p.Lineage == other.Lineage }

// Parent is a place in the stream of the previous term. Term is 0 if there is no previous term.
type Parent struct {
	Term uint64 `json:"term"`
	Position
}

func (t Term) encode() ([]byte, error) {
	t.Format = t.Pair.format()
	if err := t.check(); err != nil {
		return nil, err
	}
	return strictjson.MarshalSummed(t)
}

// decodeTerm reads the term with a number from the content of its object.
func decodeTerm(text []byte, number uint64) (t Term, err error) {
	data := "term " + strconv.FormatUint(number, 16) + " of the archive"
	if err := readSummed(text, data, termFormat, &t); err != nil {
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
	case t.Pair != nil && (t.Pair.Lineage == "" || t.Pair.Term == 0 || t.Pair.Disk == ""):
		return errors.New("its pair lacks lineage, term or disk")
	case len(t.Nonce) > nonceBytes:
		return fmt.Errorf("its nonce is longer than %d bytes", nonceBytes)
	case t.DataFormat < 1:
		return fmt.Errorf("its data has format %d", t.DataFormat)
	}
	return nil
}

// readSummed reads a text of JSON with a member "format" and its own sum. It checks the format before the sum and unknown
// members, so that the error names a newer format as the reason.
func readSummed(text []byte, data string, known int, v any) error {
	if err := checkFormat(text, data, known); err != nil {
		return err
	}
	if err := strictjson.UnmarshalSummed(text, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", data, err)
	}
	return nil
}

// checkFormat checks the member "format" of a text of JSON.
func checkFormat(text []byte, data string, known int) error {
	var form struct {
		Format int `json:"format"`
	}
	if err := strictjson.Unmarshal(text, &form); err != nil {
		return fmt.Errorf("%s is damaged: it %w", data, err)
	}
	return disk.CheckFormat(data, strconv.Itoa(form.Format), known)
}
