// Package pair keeps a second machine, the standby, ready to take the place of a primary. The primary
// sends the bytes of its logs, and answers a write when both disks have it. A register decides which machine is
// the primary. spec/Standby.tla is the model of the rules. docs/decisions/0053-stream.md has the stream.
//
// The invariants: a standby that may be promoted has every answered write, and beside a machine that serves
// the other machine answers no read. Package pair must never confirm a write that is only in the memory of
// the standby, and never compare the clocks of two machines.
package pair

import (
	"errors"

	"fanfare/internal/stream"
)

var (
	// ErrDamaged means that the other machine sent bytes that no version sends.
	ErrDamaged = errors.New("the other machine sent a damaged message")
	// ErrVersion means that the versions of the two machines do not understand each other.
	ErrVersion = errors.New("the two machines run versions that do not fit: use the same fanfare on both")
	// ErrSameDisk means that both machines have a copy of the same data directory.
	ErrSameDisk = errors.New("the other machine has the same disk id, so the data directory of one machine is a copy of the other one, and neither may answer: stop both, keep the directory with more data, move the other one away, and start its machine with --standby and an empty data directory")
	// ErrSelf means that a machine has called itself.
	ErrSelf = errors.New("FANFARE_PEER names this machine itself: name the address of the other machine")
	// ErrLineage means that the standby has other data.
	ErrLineage = errors.New("the standby has the data of another primary: start it with an empty data directory")
	// ErrOtherStandby means that the primary is paired with another disk (P6).
	ErrOtherStandby = errors.New("the primary is paired with another disk: start that standby, or wait until the primary is alone")
	// ErrNotPrimary means that the other machine is no primary of this term or a later term.
	ErrNotPrimary = errors.New("the other machine is not the primary: look at fanfare pair status on both machines")
	// ErrReplaced means that the other machine has become the primary.
	ErrReplaced = errors.New("the other machine has become the primary: start this machine as its standby")
	// ErrRewound means that the primary lacks writes that it had announced as synced (P9).
	ErrRewound = errors.New("the primary has lost synced writes, because its disk is an old copy or lost its data: stop the primary, and run fanfare promote --primary-is-gone on the standby")
	// ErrMustSeed means that a paired primary no longer has what its standby lacks.
	ErrMustSeed = errors.New("the standby needs a new copy of all data: it gets the copy once the primary is alone; if the register is gone, stop both machines, delete the data directory of the standby, run fanfare unpair --standby-is-gone on the primary, and start both")
	// ErrDamagedCopy means that the disk of the standby has damaged data.
	ErrDamagedCopy = errors.New("the data of this standby are damaged: while the primary runs, delete the data directory of the standby and start the standby again with --standby")
	// ErrNotPaired means that the primary may have answered writes that the standby lacks.
	ErrNotPaired = errors.New("the standby may lack answered writes, because its primary has not paired with it")
	// ErrPairEnded means that an operator has ended the pair, so that its primary may serve without the register.
	ErrPairEnded = errors.New("the pair was ended by fanfare unpair, so its primary may serve without the register: to pair again, start both machines with FANFARE_PEER, the primary first; if the primary is gone for good, delete register.json and run fanfare promote --register-is-gone: the writes since the end of the pair are lost")
	// ErrSeeding means that the standby has no whole copy.
	ErrSeeding = errors.New("the standby has no whole copy of the data: it cannot be promoted")
	// ErrCopied means that the files of the data directory were copied from another one, with its disk id.
	ErrCopied = errors.New("the data directory is a copy of another one, so the pair would take its machine for the original: start the original; if it is gone, promote the other machine of the pair, and start this machine with --standby and an empty data directory; if both are gone, run fanfare unpair --standby-is-gone here")
	// errTwin means that another process with the same disk lives.
	errTwin = errors.New("another process with this disk id has a session, or renews the register: one of the two data directories is a copy, so stop that one")
	// errForgot means that a standby lacks writes that it had confirmed.
	errForgot = errors.New("the standby lacks what it had confirmed: its disk lost synced writes, or is an old copy")
	// ErrOldCopy means that the data directory had a later role than its role now (P17).
	ErrOldCopy = errors.New("the data directory is an old copy, which lacks answered writes: run fanfare promote --primary-is-gone on the other machine, or restore the data from an archive")
	// ErrRegister means that the two machines do not ask the same register.
	ErrRegister = errors.New("FANFARE_REGISTER differs between the two machines: stop both, and start both with the same value")
	// ErrRegisterGone means that the register of a pair has lost its entry.
	ErrRegisterGone = errors.New("the register has lost the entry of this pair: if FANFARE_REGISTER has changed, name its former address; or restore register.json; or stop both machines, run fanfare unpair --standby-is-gone on the machine with the newest data, start that machine, and only then the other machine")
	// ErrNoPrimary means that the register of a standby has no entry, so the standby cannot know whether the primary has answered alone.
	ErrNoPrimary = errors.New("the register has no entry, so this standby cannot know whether the primary answered alone: if FANFARE_REGISTER has changed, name its former address; or restore register.json; or, if the primary is gone for good, run fanfare promote --register-is-gone: only writes that the primary answered alone are lost")
	// ErrEntry means that a register that should be gone has an entry.
	ErrEntry = errors.New("the register has an entry, so it is not gone: run fanfare promote --primary-is-gone")
	// ErrStopped means that a promotion has closed the stores, and has failed.
	ErrStopped = errors.New("an earlier promotion has failed: start the standby again")
	// ErrAway means that the primary has no session with its standby.
	ErrAway = errors.New("the standby is away")
)

// errAgain means that the next session of a standby continues.
var errAgain = errors.New("a new session is needed")

// errNoPosition means that a standby has no position in the stream of its primary.
var errNoPosition = errors.New("the standby has no place in the stream")

// least returns, for each store, the earlier place.
func least(a, b stream.Position) stream.Position {
	if b.Queue.Before(a.Queue) {
		a.Queue = b.Queue
	}
	if b.Table.Before(a.Table) {
		a.Table = b.Table
	}
	return a
}

// most returns, for each store, the later place.
func most(a, b stream.Position) stream.Position {
	if a.Queue.Before(b.Queue) {
		a.Queue = b.Queue
	}
	if a.Table.Before(b.Table) {
		a.Table = b.Table
	}
	return a
}
