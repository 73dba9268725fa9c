package throttle

import (
	"time"

	"fanfare/internal/table"
)

const (
	// A partition key becomes hot when many of its units are refused within hotWithin: hotLarge units
	// of large work, or hotUrgent units of any work. The API sends each of its writes four times, so
	// hotLarge alone would make a key hot for few API writes. The first limit of a hot key is
	// hotLeast or more.
	hotLarge  = table.MaxBatchWrite
	hotUrgent = 4 * table.MaxBatchWrite
	hotWithin = 2 * time.Second
	hotLeast  = 4 * table.MaxBatchWrite
	// mostKeys is the maximum number of keys in memory, hot or not. The refusals of any further key
	// count for the table.
	mostKeys = 512
)

// hotKeys remembers the partition keys whose writes the table refused. Its owner holds Throttle.mu.
type hotKeys struct {
	keys  map[string]*hotKey
	swept time.Time
}

// hotKey is a partition key with refusals. While it is hot, it has a limit.
type hotKey struct {
	valve
	// began is the time when the count of refused units began.
	began        time.Time
	refusedUnits float64
}

// refuse counts refused units of a key, and reports whether these units count for the table. The
// first refusals of a key count for the table, so that the Throttle notices a table that is short
// for all even if the work has few keys. Later refusals lower the limit of the key.
func (h *hotKeys) refuse(now time.Time, u Urgency, pk string, units float64) (forTable bool) {
	key := h.remember(now, pk)
	if key == nil {
		return true
	}
	key.pass(now)
	if key.limit > 0 {
		key.lower(now, hotLeast)
		return false
	}
	if now.Sub(key.began) >= hotWithin {
		key.began, key.refusedUnits = now, 0
	}
	key.refused = now
	key.refusedUnits += units
	if key.refusedUnits >= hotUrgent || u.large() && key.refusedUnits >= hotLarge {
		key.lower(now, hotLeast)
	}
	return true
}

// remember returns the hotKey of pk, or nil if pk is new and there is no room.
func (h *hotKeys) remember(now time.Time, pk string) *hotKey {
	if key := h.keys[pk]; key != nil {
		return key
	}
	h.sweep(now)
	if len(h.keys) >= mostKeys {
		return nil
	}
	if h.keys == nil {
		h.keys = make(map[string]*hotKey)
	}
	key := &hotKey{valve: valve{at: now}}
	h.keys[pk] = key
	return key
}

// sweep forgets, once a second, the keys that are not hot any more or did not become hot
// in time.
func (h *hotKeys) sweep(now time.Time) {
	if now.Sub(h.swept) < time.Second {
		return
	}
	h.swept = now
	for pk, key := range h.keys {
		if age := now.Sub(key.refused); age >= limitCalm || key.limit == 0 && age >= hotWithin {
			delete(h.keys, pk)
		}
	}
}

// of returns the hotKey of pk, or nil if the key is not hot.
func (h *hotKeys) of(now time.Time, pk string) *hotKey {
	key := h.keys[pk]
	if key == nil {
		return nil
	}
	if key.pass(now); key.limit == 0 {
		return nil
	}
	return key
}

// hot returns the number of keys that are hot.
func (h *hotKeys) hot(now time.Time) (n int) {
	for pk := range h.keys {
		if h.of(now, pk) != nil {
			n++
		}
	}
	return n
}
