package strictjson

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
)

// A summed object ends with its own SHA-256, as its last member. The sum covers the object without that member.
const (
	sumBegins = `,"sum":"`
	sumEnds   = `"}`
	sumLen    = len(sumBegins) + 2*sha256.Size + len(sumEnds)
)

// MarshalSummed returns the JSON of an object with its sum.
func MarshalSummed(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return append(text[:len(text)-1], sumBegins+hex.EncodeToString(sum[:])+sumEnds...), nil
}

// UnmarshalSummed reads a text of MarshalSummed into v. It refuses a text of which a byte has changed, and members without a field in v.
func UnmarshalSummed(text []byte, v any) error {
	begin := len(text) - sumLen
	if begin < 1 || !bytes.HasPrefix(text[begin:], []byte(sumBegins)) || !bytes.HasSuffix(text, []byte(sumEnds)) {
		return errors.New("it has no SHA-256")
	}
	body := append(bytes.Clone(text[:begin]), '}')
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != string(text[begin+len(sumBegins):len(text)-len(sumEnds)]) {
		return errors.New("it differs from its SHA-256")
	}
	return UnmarshalKnown(body, v)
}
