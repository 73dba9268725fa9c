package audit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table/tabletest"
)

// If an action no longer holds by the table and its event was lost, the walk removes the action from the
// notification.
func TestTheWalkTakesBackUntrueActions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, tabletest.NewMemory())
	w.people("ann", "bob", "eve", "zoe")
	const post, comment, version, unwritten = "01K0D4N8R8T5M2V9X7C3B6Z1QA", "01K0D4NSS8H1J4K7N2P5R8T3VB", "01K0D4PB9RW6Y3A8D1F4G7J2KC", "01K0D4N9R8T5M2V9X7C3B6Z1QA"
	w.put(schema.PostRef{ID: post, Author: "ann", LikeShards: 16}.Item())
	w.put(schema.Like{Post: post, User: "bob", Kind: "like", Version: version, LikeShards: 16, Flush: schema.Flush{Inc: "inc", Seq: 1}}.Item())
	w.put(schema.Like{Post: post, User: "eve", Version: version, LikeShards: 16, Flush: schema.Flush{Inc: "inc", Seq: 1}}.Item())
	w.put(schema.PostRef{ID: comment, Author: "bob", LikeShards: 1, RepostOf: post}.Item())
	w.put(schema.PostRef{ID: version, Author: "eve", LikeShards: 1, RepostOf: post, Deleted: true}.Item())
	w.put(schema.Comment{ID: comment, Post: post, Author: "bob", Text: "!"}.Item())
	w.must(w.Follow(t.Context(), "bob", "ann"))
	notice := func(kind schema.NoticeKind, target string, acts ...schema.Act) schema.Notice {
		for i := range acts {
			acts[i].Place, acts[i].State = acts[i].Version, "like"
		}
		n := schema.Notice{User: "ann", Kind: kind, Target: target, Revision: 1, Acts: acts}
		w.put(n.Item())
		return n
	}
	for _, n := range []schema.Notice{
		notice(schema.NoticeLike, post, schema.Act{Version: version, User: "bob"}, schema.Act{Version: comment, User: "eve"}, schema.Act{Version: post, User: "zoe"}),
		notice(schema.NoticeComment, post, schema.Act{Version: version, User: "eve"}, schema.Act{Version: comment, User: "bob"}),
		notice(schema.NoticeMention, post, schema.Act{Version: version, User: "eve"}, schema.Act{Version: post, User: "bob"}),
		notice(schema.NoticeRepost, post, schema.Act{Version: version, User: "eve"}, schema.Act{Version: comment, User: "bob"}, schema.Act{Version: unwritten, User: "zoe"}),
		notice(schema.NoticeFollow, "", schema.Act{Version: version, User: "eve"}, schema.Act{Version: comment, User: "bob"}),
	} {
		for range 2 {
			_, err := w.audit.Run(t.Context(), audit.Walk{Tidy: true}) // other items of the town are damaged
			require.NoError(t, err)
			now, err := schema.ParseNotice(*w.item(n.Key()))
			require.NoError(t, err)
			require.Len(t, now.Acts, len(n.Acts))
			for _, act := range now.Acts {
				assert.Equal(t, act.User == "bob", act.Holds(), "%s of %s", n.Kind, act.User)
			}
			assert.Equal(t, int64(2), now.Revision, "a true notification is written again")
		}
	}
}
