package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/doctor"
)

func TestPolicyHasTheCallsOfTheNamedDaemonsOnTheConfiguredNames(t *testing.T) {
	t.Parallel()
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
		assert.Contains(t, errs, "api, fanout, likeagg, up, setup, operator")
	}
}

func TestThePolicyOfUpIsForItsArchive(t *testing.T) {
	t.Parallel()
	code, out, errs := result(t, []string{"FANFARE_ARCHIVE=s3://backups/feed/1"}, "fanfare", "iam", "policy", "--daemon", "up", "--region", "eu-central-1")
	require.Zero(t, code, errs)
	var p doctor.Policy
	require.NoError(t, json.Unmarshal([]byte(out), &p))
	assert.Equal(t, []doctor.Statement{
		{Effect: "Allow", Action: []string{"s3:PutObject", "s3:GetObject", "s3:DeleteObject"}, Resource: []string{"arn:aws:s3:::backups/feed/1/*"}},
		{Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: []string{"arn:aws:s3:::backups"}},
	}, p.Statement)
	code, out, errs = result(t, []string{"FANFARE_REGISTER=s3://deciders/pair"}, "fanfare", "iam", "policy", "--daemon", "up")
	require.Zero(t, code, errs)
	require.NoError(t, json.Unmarshal([]byte(out), &p))
	assert.Equal(t, []doctor.Statement{
		{Effect: "Allow", Action: []string{"s3:PutObject", "s3:GetObject", "s3:DeleteObject"}, Resource: []string{"arn:aws:s3:::deciders/pair/*"}},
		{Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: []string{"arn:aws:s3:::deciders"}},
	}, p.Statement)
	for _, env := range [][]string{nil, {"FANFARE_ARCHIVE=file:///archive"}} {
		code, _, errs := result(t, env, "fanfare", "iam", "policy", "--daemon", "up")
		assert.Equal(t, 2, code)
		assert.Contains(t, errs, "set one of them")
	}
}
