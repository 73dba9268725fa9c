package dynamo_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table/dynamo"
)

// schema is the description of a table in a fake DynamoDB.
type schema struct {
	exists     bool
	key        []string
	indexKey   []string // nil: no index
	projection string
	ttl        string
	// looks counts DescribeTable calls since it was made.
	looks int
}

func (s *schema) answer(op string, _ int, in object) reply {
	switch op {
	case "CreateTable":
		if s.exists {
			return failure(400, "ResourceInUseException", nil)
		}
		if in["BillingMode"] != "PAY_PER_REQUEST" {
			return failure(400, "ValidationException", nil)
		}
		*s = schema{exists: true, key: []string{"PK", "SK"}, indexKey: []string{"GSI1PK", "GSI1SK"}, projection: "ALL"}
	case "DescribeTable":
		if !s.exists {
			return failure(400, "ResourceNotFoundException", nil)
		}
		s.looks++
		return reply{body: object{"Table": s.describe()}}
	case "UpdateTimeToLive":
		s.ttl = in["TimeToLiveSpecification"].(object)["AttributeName"].(string)
	case "DescribeTimeToLive":
		if s.ttl == "" {
			return reply{body: object{"TimeToLiveDescription": object{"TimeToLiveStatus": "DISABLED"}}}
		}
		return reply{body: object{"TimeToLiveDescription": object{"TimeToLiveStatus": "ENABLED", "AttributeName": s.ttl}}}
	}
	return reply{}
}

func (s *schema) describe() object {
	status := "CREATING"
	if s.looks > 2 {
		status = "ACTIVE"
	}
	var defs []object
	elements := func(names []string) []object {
		var out []object
		for i, name := range names {
			out = append(out, object{"AttributeName": name, "KeyType": []string{"HASH", "RANGE"}[i]})
			defs = append(defs, object{"AttributeName": name, "AttributeType": "S"})
		}
		return out
	}
	d := object{
		"TableName": "t", "TableStatus": status, "KeySchema": elements(s.key), "ItemCount": 12,
		"BillingModeSummary": object{"BillingMode": "PAY_PER_REQUEST"},
	}
	if s.indexKey != nil {
		d["GlobalSecondaryIndexes"] = []object{{
			"IndexName": "GSI1", "KeySchema": elements(s.indexKey), "Projection": object{"ProjectionType": s.projection},
		}}
	}
	d["AttributeDefinitions"] = defs
	return d
}

func TestCreateMakesTheTableAndWaitsForIt(t *testing.T) {
	s := &schema{}
	f := newFake(t, s.answer)
	store := openFake(t, f)
	for range 2 { // Create may run again
		require.NoError(t, store.Create(t.Context()))
	}
	assert.Len(t, f.seen("CreateTable"), 1, "tables were asked for")
	d, err := store.Describe(t.Context())
	require.NoError(t, err)
	if d.Name != "t" || d.Status != "ACTIVE" || d.Billing != "PAY_PER_REQUEST" || d.TTL != "ttl" || d.Items != 12 || len(d.Differences) != 0 {
		t.Errorf("description %+v", d)
	}
}

func TestCreateRefusesATableOfAnotherKind(t *testing.T) {
	for want, s := range map[string]*schema{
		"key of the table is PK (S), not": {key: []string{"PK"}, indexKey: []string{"GSI1PK", "GSI1SK"}, projection: "ALL", ttl: "ttl"},
		"no index GSI1":                   {key: []string{"PK", "SK"}},
		"key of GSI1 is SK (S), PK (S)":   {key: []string{"PK", "SK"}, indexKey: []string{"SK", "PK"}, projection: "ALL", ttl: "ttl"},
		"not project all":                 {key: []string{"PK", "SK"}, indexKey: []string{"GSI1PK", "GSI1SK"}, projection: "KEYS_ONLY", ttl: "ttl"},
		"expire by gone, not by ttl":      {key: []string{"PK", "SK"}, indexKey: []string{"GSI1PK", "GSI1SK"}, projection: "ALL", ttl: "gone"},
	} {
		t.Run(want, func(t *testing.T) {
			s.exists, s.looks = true, 10
			f := newFake(t, s.answer)
			err := openFake(t, f).Create(t.Context())
			differs, ok := errors.AsType[*dynamo.SchemaError](err)
			if !ok || len(differs.Differences) != 1 || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want a SchemaError that says %q", err, want)
			}
			assert.Empty(t, f.seen("UpdateTimeToLive"), "a table of another kind was changed")
		})
	}
}

func TestCreateEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &schema{exists: true, key: []string{"PK", "SK"}}
	f := newFake(t, func(op string, n int, in object) reply {
		s.looks = 0 // it never becomes active
		cancel()
		return s.answer(op, n, in)
	})
	assert.Error(t, openFake(t, f).Create(ctx), "a table that never becomes active was created")
}
