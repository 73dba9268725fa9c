package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// Producers of other programs send likes without the APIs, and check neither the post nor the
// stored version.

// stray sends a like of a post that never existed. The like must end as a dead letter.
func (l *workload) stray(r *rand.Rand, p planned) *operation {
	post, err := id.NewSeededGenerator(time.Now, entropy(r.Uint64())).New()
	if err != nil {
		l.fail("oracle", "%v", err)
		return nil
	}
	return &operation{
		name: "stray", user: p.user,
		do: func(context.Context, *domain) error { return nil },
		settle: func(error) {
			l.bad = append(l.bad, l.send(r, fmt.Sprintf("stray-%d", p.number), post, p.user, schema.KindLike))
		},
	}
}

// redriveUnknown redrives the likes that an aggregator gave up because their post was missing, if
// the post exists now: a slow clock had delayed the post's event for hours. Such a like is not
// lost, because an operator can redrive it (I6). redriveUnknown reports whether there was such a
// like.
func (w *World) redriveUnknown() (some bool) {
	w.redrive(queue.TopicLikes, func(d queue.DeadLetter) error {
		like := likeOf(decoded(d.Payload))
		if like == nil || w.set[d.ID] || !d.Has(messages.ReasonNoPost) {
			return errDown
		}
		res, err := w.store.Get(context.Background(), table.GetInput{Key: schema.PostByIDKey(like.PostID), Consistent: true})
		if err != nil || res.Item == nil {
			return errDown
		}
		if err := redrivable(d); err != nil {
			return err
		}
		some = true
		return nil
	})
	return some
}

// redriveLate redrives the dead letters that came after the redrive of the storm's letters: their last try began
// in the storm. The work of such a letter is done and its event was not sent, or the embedded queue took the
// message for the killer of the process. If stormy is true, the last of all attempts may also have begun in the
// storm. Likes may wait for days, and checkTold leaves them out. redriveLate reports whether there was such a letter.
func (w *World) redriveLate(stormy bool) (some bool) {
	for _, topic := range queue.Topics() {
		if topic == queue.TopicLikes {
			continue
		}
		w.redrive(topic, func(d queue.DeadLetter) error {
			if late := d.Has(messages.ReasonUnsent) || d.Has(messages.ReasonCrashed) || stormy && d.Has(messages.ReasonAttempts); !late {
				return errDown
			}
			err := redrivable(d)
			some = some || err == nil
			return err
		})
	}
	return some
}

// burst sends reactions of many users to one post at once, and then the ends of these reactions. So
// a window has several users, and several actions of one user.
func (l *workload) burst(r *rand.Rand, p planned) *operation {
	if len(l.posts) == 0 {
		return nil
	}
	post := l.choose(r, l.posts[:min(len(l.posts), 3)])
	return &operation{
		name: "burst " + post, user: p.user,
		do: func(context.Context, *domain) error { return nil },
		settle: func(error) {
			for n := range 1 + r.IntN(8) {
				kind := []string{schema.KindLike, schema.KindLike, kinds()[0], "", ""}
				l.send(r, fmt.Sprintf("burst-%d>%d", p.number, n), post, l.users[r.IntN(len(l.users))], kind[r.IntN(len(kind))])
			}
		},
	}
}

// send puts a reaction of a kind, "" for none, on the queue, and returns the id of the reaction.
func (l *workload) send(r *rand.Rand, name, post, user, kind string) string {
	version, err := id.NewSeededGenerator(time.Now, entropy(r.Uint64())).New()
	if err != nil {
		l.fail("oracle", "%v", err)
		return ""
	}
	like := messages.Like{Header: messages.Header{EventID: version, Time: time.Now()}, PostID: post, UserID: user}
	payload, err := messages.Encode(messages.Action(like, kind))
	if err != nil {
		l.fail("oracle", "%v", err)
		return ""
	}
	l.w.put(queue.TopicLikes, version, name, payload)
	l.w.names[version] = name
	return version
}
