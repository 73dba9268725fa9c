package stream

import (
	"encoding/json"
	"errors"
)

var errPlace = errors.New("a place is a list of log and offset")

// MarshalJSON writes a place as a list of log and offset.
func (p Place) MarshalJSON() ([]byte, error) { return json.Marshal([2]uint64{p.Log, p.Offset}) }

// UnmarshalJSON reads the list of MarshalJSON.
func (p *Place) UnmarshalJSON(text []byte) error {
	var list []uint64
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if len(list) != 2 {
		return errPlace
	}
	p.Log, p.Offset = list[0], list[1]
	return nil
}
