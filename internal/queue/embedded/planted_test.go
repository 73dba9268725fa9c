package embedded

import (
	"testing"

	"fanfare/internal/planttest"
)

// The storms write one event at a time, so the tests of this package find the bugs of concurrent writers and readers.
func TestTheTestsFindTheBugsOfTheLog(t *testing.T) {
	t.Parallel()
	const logs = "internal/queue/embedded/log.go"
	for name, bug := range map[string]struct {
		edits      []planttest.Edit
		test, want string
	}{
		"position by the clock of the caller": {
			[]planttest.Edit{
				{File: logs, Old: "changes[i] = change{to: logged, value", New: "changes[i] = change{to: logged, due: uint64(b.now().UnixNano()), value"},
				{File: logs, Old: "position{max(l.staged.major, uint64(now.UnixNano())), l.staged.number + 1}", New: "position{c.due, l.staged.number + 1 + 0*uint64(now.Second())}"},
				{File: logs, Old: "if l.last.less(l.staged) {", New: "if true {"},
			},
			"TestReadersBesideManyWritersMissNothing", "Error Trace",
		},
		"event shown before it is durable": {
			[]planttest.Edit{{File: logs, Old: "		if last.less(found) {\n			return false\n		}\n		msg", New: "		msg"}},
			"TestAReaderGetsOnlyDurableEvents", "is not on the disk yet",
		},
		"newest removed event noted after its removal": {
			[]planttest.Edit{{File: logs, Old: "		l.remove(c.at)\n", New: ""}},
			"TestOldEventsAreRemovedAndALateReaderIsTold", "Should be true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary := planttest.Build(t, planttest.Overlay(t, planttest.Root(t), bug.edits))
			planttest.MustFail(t, binary, bug.test, bug.want, 20)
		})
	}
}
