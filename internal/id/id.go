// Package id makes and checks the identifiers that Fanfare stores: ULIDs for posts, comments and
// events, and user ids. A user id is the sub of a token.
//
// For each author, the order of ids is the order of time, so a Generator must never make an id below
// an earlier id. ulid.Make makes such ids, because it reads its clock outside of its lock (476 of 3.2
// million ids across goroutines). Also, the entropy of ulid.Make can be predicted.
package id

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// Len is the length in bytes of every ULID as text.
const Len = ulid.EncodedSize

// Min and Max are the lowest and the highest possible id. All ids are between Min and Max, inclusive,
// so Min and Max serve as open ends of a key range.
const (
	Min = "00000000000000000000000000"
	Max = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
)

// ErrMalformed is the cause of every error about an id outside its grammar.
var ErrMalformed = errors.New("malformed id")

// Generator makes ascending ULIDs, even when the clock steps back or many goroutines call the
// Generator at once. A process has one Generator.
type Generator struct {
	now     func() time.Time
	mu      sync.Mutex
	last    uint64
	entropy *ulid.MonotonicEntropy
}

// NewGenerator returns a generator with the clock now, and with entropy from crypto/rand.
func NewGenerator(now func() time.Time) *Generator {
	return newGenerator(now, rand.Reader)
}

// NewSeededGenerator returns a generator whose ids depend only on now and entropy. The simulation uses
// this generator, because a seed must replay byte for byte.
func NewSeededGenerator(now func() time.Time, entropy io.Reader) *Generator {
	return newGenerator(now, entropy)
}

func newGenerator(now func() time.Time, entropy io.Reader) *Generator {
	return &Generator{now: now, entropy: ulid.Monotonic(entropy, 0)}
}

// New returns the next id. The time of the id is max(now, the last id's time).
func (g *Generator) New() (string, error) {
	return g.After("")
}

// After returns an id above floor, and above every earlier id of this generator from the clock. floor
// is the author's newest post, or "" for none. floor keeps one author's ids in order across replicas
// whose clocks differ. floor raises only this one id, so a replica whose clock is ahead does not raise
// the ids of other authors. Ids above one floor that is ahead of the clock are also in the order of
// their clocks.
func (g *Generator) After(floor string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ms := max(ulid.Timestamp(g.now()), g.last)
	next, err := ulid.New(ms, g.entropy)
	if errors.Is(err, ulid.ErrMonotonicOverflow) {
		ms++
		next, err = ulid.New(ms, g.entropy)
	}
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	g.last = ms
	if floor == "" || next.String() > floor {
		return next.String(), nil
	}
	above, err := Parse(floor)
	if err != nil {
		return "", fmt.Errorf("make an id above %q: %w", floor, err)
	}
	if above.Time() >= ulid.MaxTime() {
		return "", fmt.Errorf("make an id above %q: no later time exists", floor)
	}
	var entropy [10]byte // the clock's 6 bytes of time, then random bytes
	copy(entropy[:], next[:6])
	copy(entropy[6:], next[12:])
	if err := errors.Join(next.SetTime(above.Time()+1), next.SetEntropy(entropy[:])); err != nil {
		return "", fmt.Errorf("make an id above %q: %w", floor, err)
	}
	return next.String(), nil
}

// Before returns a new id in the millisecond before ceiling.
func (g *Generator) Before(ceiling string) (string, error) {
	below, err := Parse(ceiling)
	if err != nil || below.Time() == 0 {
		return "", fmt.Errorf("make an id before %q: no earlier time exists, or %w", ceiling, cmp.Or(err, ErrMalformed))
	}
	made, err := g.New()
	if err != nil {
		return "", err
	}
	next, err := Parse(made)
	if err == nil {
		err = next.SetTime(below.Time() - 1)
	}
	return next.String(), err
}

// Successor returns the lowest id above an id.
func Successor(of string) (string, error) {
	next, err := Parse(of)
	if err != nil || of == Max {
		return "", fmt.Errorf("make the id after %q: none exists, or %w", of, cmp.Or(err, ErrMalformed))
	}
	for i := len(next) - 1; ; i-- {
		if next[i]++; next[i] != 0 {
			return next.String(), nil
		}
	}
}

// Parse reads an id strictly: 26 characters of Crockford's base 32 in upper case. So one id has only
// one spelling, and only one key.
func Parse(s string) (ulid.ULID, error) {
	u, err := ulid.ParseStrict(s)
	if err != nil {
		return ulid.ULID{}, fmt.Errorf("%w: %q is not a ULID: %w", ErrMalformed, s, err)
	}
	if u.String() != s {
		return ulid.ULID{}, fmt.Errorf("%w: %q is not a ULID in upper case", ErrMalformed, s)
	}
	return u, nil
}

// Valid reports whether Parse accepts s.
func Valid(s string) bool {
	_, err := Parse(s)
	return err == nil
}

// PackedLen is the length in bytes of the result of Pack.
const PackedLen = len(ulid.ULID{})

// Pack returns an id as bytes. For "", and for any text that Parse refuses, all bytes are zero.
func Pack(s string) []byte {
	u, err := Parse(s)
	if err != nil {
		u = ulid.Zero
	}
	return u[:]
}

// Unpack is the reverse of Pack. raw must have PackedLen bytes.
func Unpack(raw []byte) string {
	u := ulid.ULID(raw)
	if u.IsZero() {
		return ""
	}
	return u.String()
}

// Time returns the time of an id, in UTC at millisecond precision.
func Time(s string) (time.Time, error) {
	u, err := Parse(s)
	if err != nil {
		return time.Time{}, err
	}
	return ulid.Time(u.Time()).UTC(), nil
}

// Floor returns the lowest id of the millisecond of t, so [Floor(a), Floor(b)) contains the ids made
// at or after a and before b. For times outside a ULID's range, Floor returns Min or Max.
func Floor(t time.Time) string {
	if t.UnixMilli() < 0 {
		return Min
	}
	var u ulid.ULID
	if err := u.SetTime(uint64(t.UnixMilli())); err != nil {
		return Max
	}
	return u.String()
}

// Named returns an id of time t whose random part is a hash of name: each call with the same time and
// name returns the same id. A time outside a ULID's range causes an error.
func Named(t time.Time, name string) (string, error) {
	var u ulid.ULID
	if t.UnixMilli() < 0 {
		return "", fmt.Errorf("no id has the time %s", t.Format(time.RFC3339))
	}
	hash := sha256.Sum256([]byte(name))
	if err := errors.Join(u.SetTime(uint64(t.UnixMilli())), u.SetEntropy(hash[:10])); err != nil {
		return "", fmt.Errorf("make an id of %s: %w", t.Format(time.RFC3339), err)
	}
	return u.String(), nil
}

// UserGrammar describes the grammar of a user id in messages for people.
const UserGrammar = "1 to 64 of A-Z a-z 0-9 _ - . : @ |, where none of the last four comes first"

// UserPattern and ULIDPattern are the grammars of a user id and of an id, for schemas.
const (
	UserPattern = `^[A-Za-z0-9_-][A-Za-z0-9_.:@|-]{0,63}$`
	ULIDPattern = `^[0-7][0-9A-HJKMNP-TV-Z]{25}$`
)

// ValidUser reports whether s fits UserGrammar. The subjects of identity providers fit ("auth0|5f7c",
// "000123.abc.0456"). The grammar excludes '#', which separates the parts of a key, and '~', which
// ends a range of keys. A user id cannot be the segment "." or ".." of a path either.
func ValidUser(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		case i > 0 && (c == '.' || c == ':' || c == '@' || c == '|'):
		default:
			return false
		}
	}
	return true
}
