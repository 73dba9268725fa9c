package embedded

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
)

// Whatever file is damaged, one of three things happens: Open refuses the directory, or the
// broker reports the damage and delivers the undamaged messages, or all messages are delivered.
// The exception is the end of the log, which a power cut may also damage.
func TestDamagedFilesAreNeverServed(t *testing.T) {
	t.Parallel()
	const messages = 60
	fs, killed := vfs.NewMem(), vfs.NewMem()
	b := mustOpen(t, fs)
	payload := func(i int) string { return strings.Repeat(fmt.Sprint(i, " "), 1200) }
	for i := range messages {
		require.NoError(t, b.Publish(topicName, message.NewMessage(fmt.Sprint(i), []byte(payload(i)))))
		if i == messages/2 {
			require.NoError(t, b.db.Flush())
		}
	}
	_, err := vfs.Clone(fs, killed, "queue", "queue")
	require.NoError(t, err)
	disktest.EachDamage(t, killed, "queue", func(damaged vfs.FS, damage disktest.Damage) string {
		b, err := Open("queue", Options{FS: damaged})
		if err != nil {
			return "refused"
		}
		next := 0
		err = scan(b.db, ready, topicName, position{}, func(_ position, r record) bool {
			msg, err := r.decode()
			if err != nil {
				t.Errorf("%+v: %v", damage, err)
				return false
			}
			for next < messages && msg.UUID != fmt.Sprint(next) && b.Damage() != nil {
				next++ // skips a message in the damaged part
			}
			if msg.UUID != fmt.Sprint(next) || string(msg.Payload) != payload(next) {
				t.Errorf("%+v: message %d was served as %s with %d bytes", damage, next, msg.UUID, len(msg.Payload))
				return false
			}
			next++
			return true
		})
		assert.NoErrorf(t, err, "%+v", damage)
		if next < messages && b.Damage() == nil && !damage.LooksTorn() {
			t.Errorf("%+v: the messages from %d on are lost and nothing says so", damage, next)
		}
		if err := b.Close(); err != nil && b.Damage() == nil {
			t.Errorf("%+v: Close: %v", damage, err)
		}
		return map[bool]string{true: "reported", false: "harmless"}[b.Damage() != nil]
	})
}
