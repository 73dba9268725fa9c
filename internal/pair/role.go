package pair

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/follow"
	"fanfare/internal/strictjson"
)

// RoleFile is the name of the role's file in the data directory. A backup, a base of an archive and a seed do not
// have this file, because each directory has its own role.
const RoleFile = "ROLE"

// roleFormat is the format of a role that this version writes. It is also the newest format that this version reads.
const roleFormat = 1

// The roles of a machine.
const (
	RolePrimary = "primary"
	RoleStandby = "standby"
)

// The modes of a machine.
const (
	// ModeAlone is a primary that answers by itself.
	ModeAlone = "alone"
	// ModePaired is a primary whose answers wait for its standby.
	ModePaired = "paired"
	// ModeSeeding is a standby that does not have all data yet.
	ModeSeeding = "seeding"
	// ModeFollowing is a standby that has all data up to some moment, but whose primary may answer by itself.
	ModeFollowing = "following"
)

// Role is what a data directory is within its pair. Only the process that holds the lock of the directory may use
// it. Load it with LoadRole, or make it with NewRole.
type Role struct {
	Format int `json:"format"`
	// Lineage names the data; both machines of a pair have the same. A standby that was never seeded has none.
	// Disk names the directory, and is never copied to another directory (P6).
	Lineage string `json:"lineage"`
	Disk    string `json:"disk_id"`
	Role    string `json:"role"`
	Mode    string `json:"mode"`
	// Term grows with each change of the primary.
	Term uint64 `json:"term"`
	// Peer is the Disk of the other machine, empty for none: a paired primary has the disk of its standby, and a
	// standby has the disk of its primary.
	Peer string `json:"peer_disk"`
	// Claimed is the newest term that the machine has tried to take in the register, 0 for none.
	Claimed uint64 `json:"claimed_term,omitempty"`
	// Accepted is the term of an older entry of the register that an operator has made the entry of this primary, 0 for none (P20).
	Accepted uint64 `json:"accepted_term,omitempty"`
	// GivesUp means that the standby has claimed that term although it lacked answered writes.
	GivesUp bool `json:"gives_up,omitempty"`
	// Lease is the lease of the newest session of a standby, in milliseconds: the promises of an earlier process hold for so long.
	Lease int64 `json:"lease_ms,omitempty"`
	// Since is the first term since which the disk has been the primary without a break, 0 if that is Term.
	Since uint64 `json:"since_term,omitempty"`
	// Move is the newest move of the pair to another register, nil if there was none.
	Move *Move `json:"move,omitempty"`
	// Print is the print of the directory when this role was stored. A copy of the directory differs.
	Print *datadir.Print `json:"print,omitempty"`

	path     string
	process  string         // see Hello.Process
	here     *datadir.Print // the present print of the directory
	compared bool           // this start has compared the logs of the directory
}

// NewRole returns the role of the data directory dir. A primary is alone and has a lineage of its own; a standby has no
// data yet. The caller has to save the role.
func NewRole(dir, role string) *Role {
	r := &Role{Disk: rand.Text(), Role: role, Mode: ModeSeeding, path: filepath.Join(dir, RoleFile), process: rand.Text()}
	r.here, _ = datadir.PrintOf(dir) // a directory without a print is compared with nothing
	if role == RolePrimary {
		r.Lineage, r.Mode, r.Term = rand.Text(), ModeAlone, 1
	}
	return r
}

// LoadRole reads the role of the data directory dir. It returns nil if the directory has no role.
func LoadRole(dir string) (*Role, error) {
	path := filepath.Join(dir, RoleFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, TailDir)); err == nil { // its stores alone may lack answered writes
			return nil, &disk.DamageError{Name: path, Reason: "is absent, though the directory has the tail of a standby"}
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the role of the data directory: %w", err)
	}
	r, err := decodeRole(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.path, r.process = path, rand.Text()
	r.here, err = datadir.PrintOf(dir)
	return r, err
}

// compare compares the logs of the directory, once in a start: before the register has a claim, and before a standby hears of the logs.
func (r *Role) compare(stores follow.Stores) error {
	if r.compared {
		return nil
	}
	err := stores.Compare()
	r.compared = err == nil
	return err
}

// likeness compares the directory with the one in which the role was stored.
func (r *Role) likeness() datadir.Likeness { return datadir.Compare(r.Print, r.here) }

// copied returns ErrCopied for a copy of the files of another data directory, which has the disk id of that one.
func (r *Role) copied() error {
	if r.likeness() == datadir.Copied {
		return ErrCopied
	}
	return nil
}

// Alone returns an error if the data directory dir must not be written without the other machine of its pair.
func Alone(dir string) error {
	role, err := LoadRole(dir)
	switch {
	case err != nil || role == nil:
		return err
	case role.Role == RoleStandby:
		return fmt.Errorf("data directory %s is of a standby, which only fanfare up with FANFARE_PEER may open", dir)
	case role.Mode == ModePaired || role.Claimed > 0: // its standby may be the primary by now
		return fmt.Errorf("data directory %s is of a pair, whose register decides whether this machine is still the primary: start fanfare up with FANFARE_PEER and FANFARE_REGISTER as before, or, to end the pair, stop the standby and run fanfare unpair --standby-is-gone", dir)
	}
	return nil
}

// decodeRole reads the text of a role. A text that no version wrote is an error, because a guess could make two primaries.
func decodeRole(text []byte) (*Role, error) {
	var form struct {
		Format int `json:"format"`
	}
	if err := strictjson.Unmarshal(text, &form); err != nil {
		return nil, fmt.Errorf("the role is damaged: it %w", err)
	}
	if err := disk.CheckFormat("the role", strconv.Itoa(form.Format), roleFormat); err != nil {
		return nil, err
	}
	r := &Role{}
	if err := strictjson.UnmarshalSummed(text, r); err != nil {
		return nil, fmt.Errorf("the role is damaged: %w", err)
	}
	return r, r.check()
}

// reign returns the first term since which the disk has been the primary.
func (r *Role) reign() uint64 {
	if r.Since == 0 {
		return r.Term
	}
	return r.Since
}

// check returns an error for a role that cannot be.
func (r *Role) check() error {
	var known bool
	switch r.Role {
	case RolePrimary:
		known = r.Lineage != "" && r.Term > 0 && (r.Mode == ModeAlone || r.Mode == ModePaired && r.Peer != "")
	case RoleStandby:
		known = r.Mode == ModeSeeding || r.Lineage != "" && r.Term > 0 && r.Peer != "" && r.Mode == ModeFollowing
	default:
	}
	if !known || r.Disk == "" || r.Disk == r.Peer {
		return fmt.Errorf("a %q that is %q cannot be in term %d with the peer %q: the role is damaged, so seed this machine from the other one", r.Role, r.Mode, r.Term, r.Peer)
	}
	return nil
}

// Demote makes a primary whose place the other machine has taken a standby, and stores that. Its data may have writes that the
// other machine lacks, so they are replaced by a seed, and the directory counts as another one.
func (r *Role) Demote() error {
	next := *r
	next.Role, next.Mode, next.Disk, next.Since = RoleStandby, ModeSeeding, rand.Text(), 0
	if err := next.Save(); err != nil {
		return err
	}
	*r = next
	return nil
}

// unpair makes a primary alone, and stores that it is in no pair any more. It keeps the term that the register may have: its next entry must not have
// an older one.
func (r *Role) unpair(accepted uint64) error {
	next := *r
	next.Mode, next.Peer, next.Accepted, next.Move = ModeAlone, "", accepted, r.Move.arrived()
	if r.Claimed > r.Term {
		next.Since, next.Term = r.reign(), r.Claimed
	}
	next.Claimed = 0
	if err := next.Save(); err != nil {
		return err
	}
	*r = next
	return nil
}

// Save stores the role. After a crash the file has the old or the new role.
func (r *Role) Save() error {
	r.Format, r.Print = roleFormat, r.here
	if err := r.check(); err != nil {
		return err
	}
	text, err := strictjson.MarshalSummed(r)
	if err != nil {
		return err
	}
	if err := datadir.WriteFile(r.path, text); err != nil {
		return fmt.Errorf("store the role of the data directory: %w", err)
	}
	return nil
}
