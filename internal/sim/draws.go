package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Shrinking leaves out operations and faults, and the remaining operations and faults should run as
// before. A single stream of random numbers would shift with the first missing call. So each
// decision draws from its own stream, whose name is the subject of the decision. A choice among
// candidates draws a lot for each candidate by its name: if some candidates are missing, the same
// candidate still wins.

// about starts the stream with the given name. The next draws of w come from this stream.
func (w *World) about(format string, args ...any) {
	w.pcg.Seed(w.seed, mix(w.seed, fmt.Sprintf(format, args...)))
}

// aboutStep is about with the name of a decision that occurs in every step.
func (w *World) aboutStep(name string) {
	text := append(make([]byte, 0, 64), name...)
	for _, n := range [...]int{w.phase, w.since} {
		text = strconv.AppendInt(append(text, ' '), int64(n), 10)
	}
	w.pcg.Seed(w.seed, mix(w.seed, string(text)))
}

// brief shortens a name: the name of a message contains the name of its sender, which contains the name of
// another message, and so on.
func brief(name string) string {
	const most = 60
	if len(name) <= most {
		return name
	}
	return fmt.Sprintf("%s..%016x", name[:most], mix(0, name))
}

// choose draws a lot for each element by its name, and returns the index of the winner.
func choose[T any](rng *rand.Rand, all []T, name func(T) string) int {
	seed := rng.Uint64()
	best, most := 0, uint64(0)
	met := map[string]int{}
	for i, one := range all {
		called := name(one)
		met[called]++ // a second element with the same name draws another lot
		if lot := mix(seed+uint64(met[called]), called); i == 0 || lot > most {
			best, most = i, lot
		}
	}
	return best
}

// mix is a hash of text: FNV-1a with the finish of SplitMix64. Without the finish, similar texts have similar
// sums.
func mix(seed uint64, text string) uint64 {
	h := seed ^ 14695981039346656037
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// aliases gives each id the name of the operation that made the id, because ids contain the time and random
// bits.
type aliases struct {
	of   map[string]string
	made map[string]int // number of ids by operation
}

const ulidLen = 26

// in replaces the ids in text. An id that is new belongs to op.
func (a aliases) in(op, text string) string {
	var b strings.Builder
	run := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && (text[i] >= '0' && text[i] <= '9' || text[i] >= 'A' && text[i] <= 'Z') {
			run++
			continue
		}
		if word := text[i-run : i]; run == ulidLen {
			alias, met := a.of[word]
			if !met {
				a.made[op]++
				alias = fmt.Sprintf("%s.%d", op, a.made[op])
				a.of[word] = alias
			}
			b.WriteString(alias)
		} else {
			b.WriteString(word)
		}
		if i < len(text) {
			b.WriteByte(text[i])
		}
		run = 0
	}
	return b.String()
}
