package sqs_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
	"fanfare/internal/queue/sqstest"
)

// An operator has to repair these failures. A message waits for the repair, and the health check shows the
// failure. Package table uses the same list of failures (awsclient.Transient).
func TestWhatAnOperatorMendsIsTransientAndShows(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException",
		"InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch", "KmsAccessDenied", "KMS.AccessDeniedException",
		"KmsDisabled", "KmsInvalidState", "KmsNotFound", "KMS.OptInRequired", "QueueDoesNotExist",
	} {
		for name, fault := range map[string]sqstest.Fault{
			"request": {Status: http.StatusBadRequest, Code: code},
			"entry":   {Entries: map[string]sqstest.EntryFault{"0": {Code: code, Sender: true}}},
		} {
			t.Run(code+"/"+name, func(t *testing.T) {
				inBubble(t, 0, func(t *bubble) {
					require.NoError(t, t.broker.Refused())
					t.sqs.FailFor(time.Hour, fault, opSend)
					err := t.broker.Publish(topic, msgs(1)...)
					require.Error(t, err)
					assert.True(t, queue.Transient(err), "%v", err)
					assert.ErrorContains(t, t.broker.Refused(), code)
					pass(time.Hour)
					t.publish(msgs(1)...)
					assert.NoError(t, t.broker.Refused(), "it was mended an hour ago")
				})
			})
		}
	}
}

func TestCredentialsThatCannotBeHadAreTransient(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *bubble) {
		client := awssqs.New(sqstest.Client(t.sqs).Options(), func(o *awssqs.Options) {
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{}, errors.New("failed to refresh cached credentials")
			})
		})
		broker := sqs.New(client, sqs.Options{Prefix: "test"})
		closeAfter(t.T, broker)
		err := broker.Publish(topic, msgs(1)...)
		require.ErrorContains(t, err, "failed to refresh")
		assert.True(t, queue.Transient(err), "%v", err)
	})
}
