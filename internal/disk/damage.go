package disk

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"
)

// ErrDamaged is wrapped by the errors of reads that found damaged data. Neither a retry nor
// free space repairs the data.
var ErrDamaged = errors.New("stored data are damaged: restore the data directory from a backup")

// damage is the first damage that a process found, nil for none.
type damage struct{ first atomic.Pointer[error] }

func (d *damage) note(log *zap.Logger, err error) {
	if d.first.CompareAndSwap(nil, &err) {
		log.Error("stored data are damaged", zap.Error(err))
	}
}

// Damage returns the first damage that the process found, wrapped in ErrDamaged, nil for none.
// Other data can still be read and written.
func (db *DB) Damage() error {
	if first := db.disk.damage.first.Load(); first != nil {
		return db.Damaged(*first)
	}
	return nil
}

// Damaged returns err wrapped in ErrDamaged if a read found damaged data: a block that Pebble
// refused, or a record for which the owner wrapped ErrDamaged itself. In this case the store
// keeps the error. For any other error Damaged returns nil.
func (db *DB) Damaged(err error) error {
	wrapped := errors.Is(err, ErrDamaged)
	if !wrapped && !pebble.IsCorruptionError(err) {
		return nil
	}
	db.disk.damage.note(db.disk.log, err)
	if wrapped {
		return err
	}
	text, _, _ := strings.Cut(err.Error(), "\n") // Pebble repeats itself on further lines
	return fmt.Errorf("%w (%s)", ErrDamaged, text)
}

// placeBytes is the number of bytes of a key, after the common bytes, that Past can distinguish.
const placeBytes = 64

// Past returns a key between from and upper, shortly after damaged data that begin at from.
// From this key on the store can be read again. Past returns nil if nothing can be read up to
// upper. Pebble's iterators end at damaged data, so Past has to try keys.
func (db *DB) Past(from, upper []byte) []byte {
	common := 0
	for common < min(len(from), len(upper)) && from[common] == upper[common] {
		common++
	}
	// place turns the suffix of a key, after the common bytes, into an integer.
	place := func(key []byte) *big.Int {
		digits := make([]byte, placeBytes)
		copy(digits, key[common:])
		return new(big.Int).SetBytes(digits)
	}
	key := func(place *big.Int) []byte {
		return append(from[:common:common], place.FillBytes(make([]byte, placeBytes))...)
	}
	begin, end := place(from), place(upper)
	bad, good := new(big.Int), new(big.Int)
	for step := big.NewInt(1); ; step.Lsh(step, 8) {
		good.Add(begin, step)
		if good.Cmp(end) >= 0 {
			return nil
		}
		if db.readable(key(good), upper) {
			break
		}
		bad.Set(step)
	}
	good.Sub(good, begin)
	// From here on, good and bad are distances from begin. The search stops when less than a
	// 256th of good is uncertain.
	for half := new(big.Int); ; {
		apart := half.Sub(good, bad)
		if apart.IsInt64() && apart.Int64() == 1 || apart.Lsh(apart, 8).Cmp(good) <= 0 {
			return key(good.Add(good, begin))
		}
		half.Rsh(half.Add(bad, good), 1)
		if db.readable(key(new(big.Int).Add(begin, half)), upper) {
			good.Set(half)
		} else {
			bad.Set(half)
		}
	}
}

// readable reports whether the first record from a key on can be read. An error other than
// damage also ends the search of Past: the caller gets that error from its own read.
func (db *DB) readable(from, upper []byte) bool {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: upper})
	if err == nil {
		if it.First() {
			_, err = it.ValueAndErr()
		}
		err = errors.Join(err, it.Error(), it.Close())
	}
	return db.Damaged(err) == nil
}
