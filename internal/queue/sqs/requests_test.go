package sqs

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqstest"
)

// If a reply does not name the failed entry, all entries fail. A repeated send of a successful entry
// loses nothing. But if a failed entry counted as successful, its message would be lost.
func TestAFailureOfAnUnknownEntryIsThatOfAll(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][]string{
		"another name": {"entry-1"}, "beyond the last": {"2"}, "below the first": {"-1"}, "twice the same": {"1", "1"}, "none": {""},
	} {
		errs := try(New(sqstest.Client(nil), Options{}), "send", []string{"a", "b"}, func(context.Context, []string) (reply, error) {
			var failed []types.BatchResultErrorEntry
			for _, id := range ids {
				failed = append(failed, types.BatchResultErrorEntry{Id: aws.String(id), Code: aws.String("InternalError")})
			}
			return reply{2 - len(failed), failed}, nil
		})
		for i, err := range errs {
			assert.ErrorAsf(t, err, new(*queue.UnavailableError), "%s: entry %d", name, i)
		}
	}
}
