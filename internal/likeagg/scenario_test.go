package likeagg

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

var rewrite = flag.Bool("rewrite", false, "write the output of the scenarios into their files")

// TestScenarios plays testdata/*.txt. A block is some commands, "----" and their output,
// which -rewrite writes. OP is post, like, ledger, user or ends (reads), put, flush, fence, end
// or prune.
//
//	aggregator NAME                              starts an aggregator with a window of 1 s
//	versions V...                                the API takes actions in this order
//	deliver NAME KIND|unlike USER V [RECEIVES]   the aggregator receives a message: a reaction
//	close-window; advance DURATION               1 s passes; so much time passes: 2m, 33d
//	lose-answer NAME OP                          the next such request is done, but not answered
//	delay NAME OP                                the next such request is done two minutes later, but not answered
//	crash NAME before OP                         the aggregator dies
//	hold NAME OP; release NAME                   the next such request waits; it continues
//	drop-entry INCARNATION                       the entry of INCARNATION is pruned, as by a flush of a large ledger
//	table                                        prints the likes and the count
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var got string
			step(t, func(w *world) { got = play(w, string(text)) })
			if *rewrite {
				err = os.WriteFile(file, []byte(got), 0o600)
			}
			if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); err != nil || diff != "" && !*rewrite {
				t.Error(err, diff)
			}
		})
	}
}

// scenario is one file of commands.
type scenario struct {
	*world
	said  strings.Builder
	named map[string]*station
	// versions are the ids of versions by name, and their names by id.
	versions map[string]string
	incs     map[string]string // names of incarnations
}

// station is an aggregator of a scenario, and its transport.
type station struct {
	queue.DeadLetters // never called
	*proc
	in   chan *message.Message
	out  []*message.Message       // unanswered
	next map[string]fault         // of the next request, by op
	hold map[string]chan struct{} // by op
}

func (st *station) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	context.AfterFunc(ctx, func() { close(st.in) })
	return st.in, nil
}

func (st *station) Close() error { return nil }

// play runs the commands and returns the text with their output.
func play(w *world, text string) string {
	s := &scenario{world: w, named: map[string]*station{}, versions: map[string]string{}, incs: map[string]string{}}
	w.fault, w.ended = s.meet, s.end
	var out strings.Builder
	isOutput := false
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 0 && isOutput {
			continue
		}
		out.WriteString(line)
		switch isOutput = false; {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "----":
			isOutput = true
			s.mu.Lock()
			out.WriteString(s.said.String())
			s.said.Reset()
			s.mu.Unlock()
		default:
			s.do(words[0], append(words[1:], "", "", "", "", ""))
			synctest.Wait()
			s.answers()
		}
	}
	return out.String()
}

func (s *scenario) do(command string, args []string) {
	st, op := s.named[args[0]], args[1]
	switch command {
	case "aggregator":
		s.aggregator(args[0])
	case "versions":
		for _, name := range args {
			s.version(name)
		}
	case "deliver":
		receives, _ := strconv.Atoi(args[4]) // without this argument, the first receive
		msg := message.NewMessage(args[3], encode(s.version(args[3]), s.post, args[2], strings.TrimSuffix(op, "unlike")))
		msg.SetContext(queue.WithReceive(context.Background(), queue.NewReceive(max(1, receives))))
		st.out = append(st.out, msg)
		st.in <- msg
	case "close-window":
		pass(time.Second)
	case "advance":
		days, isDays := strings.CutSuffix(args[0], "d")
		d, err := time.ParseDuration(days + map[bool]string{true: "h"}[isDays])
		require.NoError(s.t, err)
		if isDays {
			d *= 24
		}
		pass(d)
	case "lose-answer":
		st.next[op] = lost
	case "delay":
		st.next[op] = late
	case "crash":
		st.next[args[2]] = crashed
	case "hold":
		st.hold[op] = make(chan struct{})
	case "release":
		for op, held := range st.hold {
			delete(st.hold, op)
			close(held)
		}
	case "drop-entry":
		for inc, name := range s.incs {
			if name == args[0] {
				in := table.UpdateInput{Key: schema.LikeCountKey(s.post), Remove: []string{schema.AttrFlushed(inc)}}
				_, err := s.mem.Update(s.t.Context(), in)
				require.NoError(s.t, err)
			}
		}
	case "table":
		s.table()
	default:
		s.t.Fatalf("no command %q", command)
	}
}

func (s *scenario) aggregator(name string) {
	st := &station{in: make(chan *message.Message), next: map[string]fault{}, hold: map[string]chan struct{}{}}
	s.named[name] = st
	s.tune = func(cfg *Config) { cfg.PutConcurrency, cfg.Grace, cfg.AnyKind = 1, 0, true }
	first, made := uint64(len(s.named))<<32, uint64(0)
	st.proc = s.start(name, st, func() uint64 { // the number makes the jitter nearly zero
		made++
		s.incs[newIncarnation(dayOf(time.Now()), first+made)] = fmt.Sprint(name, made)
		return first + made
	})
}

func (s *scenario) version(name string) string {
	if name != "" && s.versions[name] == "" {
		made := s.newID()
		s.versions[name], s.versions[made] = made, name
	}
	return s.versions[name]
}

// answers prints the answers to messages. A dead aggregator gives no answer.
func (s *scenario) answers() {
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		st := s.named[name]
		st.out = slices.DeleteFunc(st.out, func(msg *message.Message) bool {
			select {
			case <-msg.Acked():
				s.say("%s acks %s", name, msg.UUID)
			case <-msg.Nacked():
				if !st.isDead() {
					s.say("%s returns %s for %v", name, msg.UUID, queue.ReceiveOf(msg).Delay())
				}
			default:
				return false
			}
			return true
		})
	}
}

func (s *scenario) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.said, format+"\n", args...)
}

// meet lets a request wait, and returns its fault.
func (s *scenario) meet(r request) fault {
	st := s.named[r.p.name]
	if held := st.hold[r.op]; held != nil {
		s.say("%s waits", s.text(r))
		<-held
	}
	met := st.next[r.op]
	delete(st.next, r.op)
	switch met {
	case late:
		s.say("%s: on its way, no answer", s.text(r))
	case crashed:
		s.say("%s: dies before", s.text(r))
	default: // any other fault is printed when the request ends
	}
	return met
}

func (s *scenario) end(r request, met fault, err error) {
	s.say("%s%s%s%s", map[fault]string{late: "late: "}[met], s.text(r), map[bool]string{true: ": refused"}[err != nil], map[fault]string{lost: ", the answer is lost"}[met])
}

func (s *scenario) text(r request) string {
	user, _ := schema.UserOfSK(r.key.SK)
	said := map[string]string{"post": "reads the post", "ledger": "reads the ledger", "like": "reads " + user, "put": "writes " + user,
		"prune": "prunes", "user": "reads the user of a late like"}[r.op]
	for _, key := range append(slices.Clone(r.keys), r.key) {
		if inc := s.incs[strings.TrimPrefix(key.PK, "inc#")]; inc != "" {
			said = map[string]string{"ends": "looks for the end of ", "end": "notes the end of "}[r.op] + inc
		}
	}
	for _, set := range r.in.Set {
		switch inc := s.incs[set.Name[1:]]; set.Name[0] {
		case 'd':
			said = fmt.Sprintf("flushes %+d", r.in.Add[0].Value.Int())
			for _, add := range r.in.Add[1:] {
				said += fmt.Sprintf(" %s%+d", add.Name, add.Value.Int())
			}
			said += fmt.Sprintf(" as %s#%d", inc, set.Value.Int())
		case 'x':
			said = "fences " + inc
		}
	}
	for _, name := range r.in.Remove {
		said += fmt.Sprintf(" %c<%s>", name[0], s.incs[name[1:]])
	}
	return r.p.name + " " + said
}

func (s *scenario) table() {
	for _, l := range s.likes(1) {
		state := func(kind string) string {
			return strings.TrimSuffix(map[bool]string{true: "0", false: "1:" + kind}[kind == ""], ":"+schema.KindLike)
		}
		said := fmt.Sprintf("%s: st=%s ver=%s base=%s f=%s#%d", l.User, state(l.Kind), s.versions[l.Version], state(l.Base), s.incs[l.Flush.Inc], l.Flush.Seq)
		if !l.TTL.IsZero() {
			said += fmt.Sprintf(" ttl=%.0fd", time.Until(l.TTL).Hours()/24)
		}
		s.say("%s%s", said, map[bool]string{true: " indexed"}[l.Indexed])
	}
	count := s.count()
	var said strings.Builder
	said.WriteString(fmt.Sprintf("count: likes=%d", count.Likes()))
	for _, kind := range slices.Sorted(maps.Keys(count.Kinds)) {
		if kind != schema.KindLike {
			said.WriteString(fmt.Sprintf(" %s=%d", schema.AttrCount(kind), count.Kinds[kind]))
		}
	}
	for _, inc := range slices.Sorted(maps.Keys(count.Done)) {
		said.WriteString(fmt.Sprintf(" d<%s>=%d", s.incs[inc], count.Done[inc]))
	}
	for inc := range count.Fenced { // no scenario has two
		said.WriteString(fmt.Sprintf(" x<%s>", s.incs[inc]))
	}
	s.say("%s", said.String())
}
