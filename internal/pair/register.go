package pair

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fanfare/internal/disk"
	"fanfare/internal/objects"
	"fanfare/internal/strictjson"
)

// RegisterFile is the name of the register in its store.
const RegisterFile = "register.json"

const (
	// registerFormat is the format of an entry that this version writes. It is also the newest format that this version reads.
	registerFormat = 1
	// maxEntry is the largest length of an entry in bytes.
	maxEntry = 64 << 10
)

var (
	// ErrNoEntry means that no pair has used the register.
	ErrNoEntry = errors.New("the register has no entry")
	// ErrSwapped means that the register has another version than the one that was to be replaced.
	ErrSwapped = errors.New("the register has changed")
)

// ModeEnded is the mode of the entry of a pair that an operator has ended: the primary may serve without the register, so only that primary may
// use the entry again (P24).
const ModeEnded = "ended"

// Entry is the content of the register: which machine is the primary, and whether it answers by itself. Its mode is ModeAlone,
// ModePaired or ModeEnded.
type Entry struct {
	Format  int    `json:"format"`
	Lineage string `json:"lineage"`
	Term    uint64 `json:"term"`
	// Primary is the Role.Disk of the primary.
	Primary string `json:"primary"`
	Mode    string `json:"mode"`
	// Standby is the Role.Disk of the only standby that may become the primary, empty for none (P6).
	Standby string `json:"standby_disk,omitempty"`
	// Lease is the lease of the primary, in milliseconds: the promise of the entry depends on it.
	Lease int64 `json:"lease_ms,omitempty"`
	// Since is the time at which the primary or the mode changed, in milliseconds since 1970 by the clock of the writer. It is for people.
	Since int64 `json:"since"`
	// Nonce is another text in each version, because a store may compare only contents.
	Nonce string `json:"nonce"`
}

// check returns an error for an entry that cannot be.
func (e Entry) check() error {
	paired := e.Mode == ModePaired && e.Standby != "" && e.Standby != e.Primary
	if e.Lineage == "" || e.Term == 0 || e.Primary == "" || e.Nonce == "" || !paired && (e.Mode != ModeAlone && e.Mode != ModeEnded || e.Standby != "") {
		return fmt.Errorf("the register is damaged: primary %q of term %d is %q with standby %q", e.Primary, e.Term, e.Mode, e.Standby)
	}
	return nil
}

// same reports whether two entries differ at most in the format, the lease, the time and the nonce.
func (e Entry) same(other Entry) bool {
	return e.Lineage == other.Lineage && e.Term == other.Term && e.Primary == other.Primary && e.Mode == other.Mode && e.Standby == other.Standby
}

// Register keeps the entry of a pair in a store that writes on condition (P16). Its calls may run at the same time.
type Register interface {
	// Name returns a text that is equal for two machines which use the same register.
	Name() string
	// Read returns the entry and its version, or ErrNoEntry.
	Read(ctx context.Context) (Entry, objects.Version, error)
	// Swap replaces the version old of the entry, or creates the entry if old is empty. It sets the format and the nonce of next. If the
	// register has another version, it returns ErrSwapped. After any other error the swap may have its effect later, as
	// long as the register has the version old.
	Swap(ctx context.Context, old objects.Version, next Entry) (objects.Version, error)
}

// StoreRegister returns the register in the store of an address. Both machines have to give the same address.
func StoreRegister(store objects.Conditional, address string) Register {
	sum := sha256.Sum256([]byte(address)) // the other machine need not learn the address
	return storeRegister{store, hex.EncodeToString(sum[:8])}
}

type storeRegister struct {
	store objects.Conditional
	name  string
}

// Name implements Register.
func (r storeRegister) Name() string { return r.name }

// Read implements Register.
func (r storeRegister) Read(ctx context.Context) (e Entry, version objects.Version, err error) {
	text, version, err := r.store.Fetch(ctx, RegisterFile, maxEntry)
	if errors.Is(err, objects.ErrNotThere) {
		return e, "", ErrNoEntry
	}
	if err == nil {
		e, err = decodeEntry(text)
	}
	if err != nil {
		return e, "", fmt.Errorf("read the register: %w", err)
	}
	return e, version, nil
}

// Swap implements Register. If the answer is lost, or a repeated request finds its own first try, the nonce shows whose
// version the register has.
func (r storeRegister) Swap(ctx context.Context, old objects.Version, next Entry) (objects.Version, error) {
	next.Format, next.Nonce = registerFormat, rand.Text()
	if next.Since == 0 {
		next.Since = time.Now().UnixMilli()
	}
	if err := next.check(); err != nil {
		return "", err
	}
	text, err := strictjson.MarshalSummed(next)
	if err != nil {
		return "", err
	}
	version, err := r.store.Swap(ctx, RegisterFile, old, objects.Bytes(text))
	if err == nil {
		return version, nil
	}
	now, version, readErr := r.Read(ctx)
	switch {
	case readErr == nil && now.Nonce == next.Nonce:
		return version, nil
	case readErr == nil && version != old:
		return "", fmt.Errorf("%w: %w", ErrSwapped, err)
	default: // the request may have had its effect, or may still be on its way
		return "", fmt.Errorf("write the register: %w", errors.Join(err, readErr))
	}
}

// decodeEntry reads the text of an entry. A text that no version wrote is an error, because a guess could make two primaries.
func decodeEntry(text []byte) (e Entry, err error) {
	var form struct {
		Format int `json:"format"`
	}
	if err := strictjson.Unmarshal(text, &form); err != nil {
		return e, fmt.Errorf("the register is damaged: it %w", err)
	}
	if err := disk.CheckFormat("the register", strconv.Itoa(form.Format), registerFormat); err != nil {
		return e, err
	}
	if err := strictjson.UnmarshalSummed(text, &e); err != nil {
		return e, fmt.Errorf("the register is damaged: %w", err)
	}
	return e, e.check()
}
