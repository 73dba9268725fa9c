package fanout_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fanout"
	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

var rewrite = flag.Bool("rewrite", false, "write the expected output in testdata/*.txt anew")

// TestScenarios plays the scenarios of testdata: commands with their expected output, which is
// the worker's writes and sends in order. Pages have 3 followers, chunks have 4, and a plan
// adds 2 chunks. Worker b cuts chunks of 5 followers. A line "at CALL: COMMAND" runs a command
// just before the first call of this kind.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			got := newScenario(t).play(string(want))
			if *rewrite {
				err = errors.Join(err, os.WriteFile(file, []byte(got), 0o600))
			} else if got != string(want) {
				t.Errorf("if this other output is intended, run with -rewrite:\n%s", got)
			}
			assert.NoError(t, err)
		})
	}
}

type scenario struct {
	*world
	other *fanout.Worker
	posts map[string]string // ids by name
	users []string
	last  messages.Event    // the message that was handled last
	hooks map[string]string // commands by the call that they precede
	dead  bool              // the worker's calls fail
	depth int
	lines []string // the output
}

func newScenario(t *testing.T) *scenario {
	t.Helper()
	sizes := func(c *fanout.Config) { c.PageSize, c.ChunkSize, c.PlanChunks = 3, 4, 2 }
	s := &scenario{world: newWorld(t, 0, sizes), posts: map[string]string{}, users: []string{author}}
	s.other = s.newWorker(sizes, func(c *fanout.Config) { c.ChunkSize = 5 })
	s.store.around = s.call
	return s
}

// play runs the blocks of a file and returns them with their present output.
func (s *scenario) play(text string) string {
	blocks := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, block := range blocks {
		input, _, isCommand := strings.Cut(block, "\n----")
		if !isCommand {
			continue
		}
		s.hooks, s.lines = map[string]string{}, []string{input, "----"}
		lines := slices.DeleteFunc(strings.Split(input, "\n"), func(line string) bool { return strings.HasPrefix(line, "#") })
		for _, line := range lines[1:] {
			call, command, _ := strings.Cut(strings.TrimPrefix(line, "at "), ": ")
			s.hooks[call] = command
		}
		if s.run(lines[0]); len(s.hooks) > 0 {
			s.Fatalf("%q: no call for %q", lines[0], s.hooks)
		}
		blocks[i] = strings.Join(s.lines, "\n")
		for name, post := range s.posts {
			blocks[i] = strings.ReplaceAll(blocks[i], post, name)
		}
	}
	return strings.Join(blocks, "\n\n") + "\n"
}

func (s *scenario) run(command string) {
	switch verb, rest, _ := strings.Cut(command, " "); verb {
	case "followers": // followers from the start, without events
		for user := range strings.FieldsSeq(rest) {
			s.addFollower(user)
			s.users = append(s.users, user)
		}
	case "follow":
		s.follow(rest, id.Min)
		s.users = append(s.users, rest)
	case "unfollow":
		s.unfollow(rest)
	case "post":
		e := s.post()
		s.posts[rest] = e.PostID
		s.enqueue(e)
	case "delete":
		s.deletePost(s.posts[rest])
	case "handle": // handles the first message of the queue
		s.last = s.take()
		s.handle(command, s.worker)
	case "redeliver": // handles the last message once more
		s.handle(command, map[string]*fanout.Worker{"": s.worker, "by b": s.other}[rest])
	case "drain":
		for len(s.queued) > 0 {
			s.run("handle")
		}
	case "crash":
		s.say("crash")
		s.dead = true
	case "record": // prints the plan and the chain
		items, _, err := table.Collect(s.mem.Query(s.Context(), table.Query{PK: schema.DeliveryPK(s.posts[rest])}), 0)
		s.must(err)
		for _, it := range items {
			s.say("%s", s.itemText(it.Key))
		}
		s.say("the delivery is %s", s.delivery(s.posts[rest]).State)
	case "timelines": // prints the users whose timelines hold the post
		s.say("%s", strings.Join(slices.DeleteFunc(slices.Clone(s.users), func(user string) bool {
			return !slices.Contains(s.home(user), s.posts[rest])
		}), " "))
	}
}

func (s *scenario) handle(command string, worker *fanout.Worker) {
	e := s.last
	s.say("%s %s", command, messageText(e))
	s.depth++
	err := handle(s.Context(), worker, e)
	if s.depth--; err != nil {
		s.say("failed: it is queued again")
		s.queued, s.dead = append([]messages.Event{e}, s.queued...), false
	}
}

func (s *scenario) say(format string, args ...any) {
	s.lines = append(s.lines, strings.Repeat("  ", s.depth)+fmt.Sprintf(format, args...))
}

// call makes one port call of a worker and adds a line for the written items.
func (s *scenario) call(op table.Op, keys []table.Key, do func() error) error {
	if op == table.OpGet || op == table.OpQuery {
		return do() // these reads have no line, because some run at the same time as writes
	}
	name := string(op)
	if op == table.OpPut {
		kind, _, _ := strings.Cut(keys[0].SK, "#")
		name += " " + kind
	}
	if command, ok := s.hooks[name]; ok {
		delete(s.hooks, name)
		s.depth++
		s.run(command)
		s.depth--
	}
	if s.dead {
		return errLost
	}
	queued := len(s.queued)
	err := do()
	switch _, refused := errors.AsType[*table.ConditionError](err); {
	case refused:
		s.say("%s refused: there is %s", op, s.itemText(keys[0]))
	case op == table.OpTransact:
		s.say("store the post")
	case op == table.OpBatchWrite: // one post to many users, or posts to one user
		for i, key := range keys {
			user := strings.Split(key.PK, "#")[1]
			if i > 0 && key.SK == keys[i-1].SK {
				s.lines[len(s.lines)-1] += " " + user
				continue
			}
			post, _, _ := schema.ParseEntrySK(key.SK)
			s.say("write %s to %s", post, user)
		}
	case op == "send":
		for _, e := range s.queued[queued:] {
			s.say("send %s", messageText(e))
		}
	default:
		s.say("%s %s", op, s.itemText(keys[0]))
	}
	return err
}

func messageText(e messages.Event) string {
	switch e := e.(type) {
	case *messages.PostCreated:
		return "post " + e.PostID
	case *messages.FanoutPlan:
		return fmt.Sprintf("plan %s from %q", e.PostID, e.First)
	case *messages.FanoutChunk:
		return fmt.Sprintf("chunk %s %s..%s", e.PostID, e.First, e.End)
	case *messages.Followed:
		return "followed by " + e.FollowerID
	}
	return "no message"
}

// itemText describes a stored plan, chunk or home mark.
func (s *scenario) itemText(key table.Key) string {
	res, err := s.mem.Get(s.Context(), table.GetInput{Key: key, Consistent: true})
	s.must(err)
	if p, err := schema.ParsePlan(*res.Item); err == nil {
		text := fmt.Sprintf("plan %s: planned %d, attempt %d", p.Post, p.Planned, p.Attempts)
		if p.Sum.Total > 0 {
			text += fmt.Sprintf(", %d chunks below %s delivered %d", p.Sum.Total, p.Sum.Upto, p.Sum.Delivered)
		}
		return text
	}
	if m, err := schema.ParseMark(*res.Item); err == nil {
		return fmt.Sprintf("mark of %s: %s%s", m.User, m.Kind, map[bool]string{true: ", expires"}[!m.TTL.IsZero()])
	}
	c, err := schema.ParseChunk(*res.Item)
	s.must(err)
	state := map[bool]string{true: "to do", false: fmt.Sprint("done, delivered ", c.Delivered)}[c.Done.IsZero()]
	return fmt.Sprintf("chunk %s %s..%s: %s", c.Post, c.First, c.End, state)
}
