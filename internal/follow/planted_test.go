package follow_test

import (
	"flag"
	"testing"

	"fanfare/internal/planttest"
)

// planted makes the test build the package with each planted bug and run the bug's test.
var planted = flag.Bool("planted", false, "find each planted bug, and do not only look whether it still fits")

func TestEveryPlantedBugIsFound(t *testing.T) {
	t.Parallel()
	const parse, followed = "internal/follow/parse.go", "internal/follow/follow.go"
	for name, bug := range map[string]struct {
		edit       planttest.Edit
		test, want string
	}{
		"a batch of an unknown kind is applied (S6)": {
			planttest.Edit{File: parse, Old: "			return fmt.Errorf(\"%w: kind %d\", ErrUnknownBatch, kind)\n", New: "			_ = ErrUnknownBatch\n"},
			"TestABatchThatTheLogDoesNotHoldIsRefused", "",
		},
		"frames behind the safe point are applied (S3)": {
			planttest.Edit{File: followed, Old: "		if safe.Of(frame.Store).Before(frame.End()) {", New: "		if safe.Of(frame.Store).Before(frame.End()) && false {"},
			"TestNothingIsAppliedBehindTheSafePoint", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			overlay := planttest.Overlay(t, planttest.Root(t), []planttest.Edit{bug.edit})
			if *planted {
				planttest.MustFail(t, planttest.Build(t, overlay), bug.test, bug.want, 1)
			}
		})
	}
}
