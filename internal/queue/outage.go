package queue

import (
	"cmp"
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"fanfare/internal/backoff"
)

const (
	// outageGroups is the number of groups whose last answers an Outage keeps. outageLeast is
	// the minimum number of failing groups that counts as an outage.
	outageGroups = 64
	outageLeast  = 4
	// outageRest is the maximum rest. outageMemory is the age after which an answer no longer
	// counts. It is longer than outageRest, so that a lasting outage is not forgotten between two
	// rests.
	outageRest   = 10 * time.Second
	outageMemory = 15 * time.Second
)

const (
	// RestBatch is the number of messages that a subscription may receive between two rests.
	RestBatch = 10
	// RestLook is the maximum time until a rest notices that Rest has become shorter.
	RestLook = time.Second
)

// Outage is for backends. It slows the receives of one subscription while most of its messages fail.
// Without the rests, the subscription would receive further messages and fail, and processes whose
// work succeeds could not receive these messages. The share of failing groups decides, not the share
// of failing messages, so one user's failing messages slow nobody else (I8). Rests never stop the
// receives completely, because the next message must be able to show that the outage is over.
//
// Failures are transient and unexplained errors. Three results are no failures: a message that its
// handler left for later; a message whose event was not sent, because the message's work is done;
// and a dead letter, because a sender of refused messages must not slow down everybody.
type Outage struct {
	seed maphash.Seed

	mu sync.Mutex
	// first has the successes, and the failures of messages that were received for the first time.
	// again has the failures of messages that had failed before. Repeated failures show little about
	// other messages, and there are many repeated failures, so they count only while nothing
	// succeeds.
	first, again answers
}

// NewOutage returns an Outage without answers.
func NewOutage() *Outage {
	return &Outage{seed: maphash.MakeSeed(), first: make(answers, 0, outageGroups), again: make(answers, 0, outageLeast)}
}

// Answered notes the answer to a message.
func (o *Outage) Answered(msg *message.Message, acked bool) {
	receive := ReceiveOf(msg)
	if !acked && !receive.failed {
		return
	}
	a := answer{maphash.String(o.seed, cmp.Or(receive.group, msg.Metadata.Get(MetaGroup), msg.UUID)), time.Now(), !acked}
	o.mu.Lock()
	defer o.mu.Unlock()
	if acked || receive.Receives == 1 {
		o.first.add(a)
	} else {
		o.again.add(a)
	}
}

// Rest returns the time for which the subscription has to rest before it receives further
// messages. It is 0 while at most half of the groups fail. It grows with the share of failing
// groups up to outageRest.
func (o *Outage) Rest() time.Duration {
	after := time.Now().Add(-outageMemory)
	o.mu.Lock()
	defer o.mu.Unlock()
	done, failed := o.first.count(after)
	if done == 0 {
		_, again := o.again.count(after)
		failed += again
	}
	if failed < outageLeast || failed <= done {
		return 0
	}
	return outageRest * time.Duration(failed-done) / time.Duration(failed+done)
}

// Wait waits for the rest. If ctx ends before that, Wait returns the cause of the end.
func (o *Outage) Wait(ctx context.Context) error {
	for began := time.Now(); ; {
		left := o.Rest() - time.Since(began)
		if left <= 0 {
			return nil
		}
		if err := backoff.Wait(ctx, min(left, RestLook)); err != nil {
			return err
		}
	}
}

// answers has the last answers of the most recently answered groups, up to its capacity.
type answers []answer

type answer struct {
	group  uint64
	at     time.Time
	failed bool
}

// add replaces the previous answer of the group. If there is none and answers is full, add
// replaces the oldest answer.
func (all *answers) add(a answer) {
	oldest := 0
	for i, known := range *all {
		if known.group == a.group {
			(*all)[i] = a
			return
		}
		if known.at.Before((*all)[oldest].at) {
			oldest = i
		}
	}
	if len(*all) < cap(*all) {
		*all = append(*all, a)
	} else {
		(*all)[oldest] = a
	}
}

// count returns the numbers of groups whose last answer is later than a time: done counts
// successes, and failed counts failures.
func (all answers) count(after time.Time) (done, failed int) {
	for _, a := range all {
		switch {
		case !a.at.After(after):
		case a.failed:
			failed++
		default:
			done++
		}
	}
	return done, failed
}
