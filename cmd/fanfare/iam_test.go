package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/doctor"
)

func TestPolicyHasTheCallsOfTheNamedDaemonsOnTheConfiguredNames(t *testing.T) {
	env := []string{"FANFARE_TABLE=feeds", "FANFARE_QUEUE_PREFIX=q"}
	policy := func(args ...string) doctor.Policy {
		t.Helper()
		code, out, errs := result(t, env, "fanfare", append([]string{"iam", "policy"}, args...)...)
		require.Zero(t, code, errs)
		var p doctor.Policy
		require.NoError(t, json.Unmarshal([]byte(out), &p))
		return p
	}
	likes := policy("--daemon", "likeagg", "--region", "eu-central-1", "--account", "123456789012", "--partition", "aws-cn", "--json")
	assert.Equal(t, "2012-10-17", likes.Version)
	assert.Contains(t, likes.Statement, doctor.Statement{
		Effect: "Allow", Action: []string{"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
		Resource: []string{"arn:aws-cn:dynamodb:eu-central-1:123456789012:table/feeds"},
	})
	assert.Contains(t, likes.Statement, doctor.Statement{
		Effect: "Allow", Action: []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"},
		Resource: []string{"arn:aws-cn:sqs:eu-central-1:123456789012:q-likes"},
	})
	api, both := policy("--daemon", "api"), policy("--daemon", "api,likeagg")
	assert.Contains(t, api.Statement, doctor.Statement{
		Effect: "Allow", Action: []string{"dynamodb:Query"}, Resource: []string{"arn:aws:dynamodb:*:*:table/feeds", "arn:aws:dynamodb:*:*:table/feeds/index/GSI1"},
	})
	for _, s := range api.Statement {
		assert.NotContains(t, s.Action, "sqs:ReceiveMessage")
		assert.NotContains(t, s.Action, "dynamodb:BatchWriteItem")
	}
	assert.Contains(t, both.Statement, doctor.Statement{Effect: "Allow", Action: []string{"sqs:SendMessage"}, Resource: []string{
		"arn:aws:sqs:*:*:q-backfills", "arn:aws:sqs:*:*:q-likes", "arn:aws:sqs:*:*:q-likes-dlq", "arn:aws:sqs:*:*:q-notices", "arn:aws:sqs:*:*:q-posts",
	}})
	for _, args := range [][]string{nil, {"--daemon", "mail"}} {
		code, out, errs := result(t, env, "fanfare", append([]string{"iam", "policy"}, args...)...)
		assert.Equal(t, 2, code)
		assert.Empty(t, out)
		assert.Contains(t, errs, "api, fanout, likeagg, setup, operator")
	}
}
