package dynamo_test

import (
	"context"
	"errors"
	"maps"
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
	indexKey   []string // nil for no index
	projection string
	ttl        string
	// looks counts the DescribeTable calls since the table was created.
	looks int
	// format is the stored format, "" for none. item is another item of the table.
	format string
	item   object
	// capacity and indexCapacity are the parts of the description that have the units. A table without
	// these parts is on demand.
	capacity, indexCapacity object
}

// markOf returns the item that has a table's format.
func markOf(format string) object {
	return object{"PK": object{"S": "format"}, "SK": object{"S": "format"}, "format": object{"N": format}}
}

// ours returns a table that Create made.
func ours() *schema {
	return &schema{exists: true, looks: 10, key: []string{"PK", "SK"}, indexKey: []string{"GSI1PK", "GSI1SK"}, projection: "ALL"}
}

// capacityIn returns the parts of CreateTable that have the units of a table or of an index. They
// have the form of DynamoDB's descriptions, which name only one of the two billing modes.
func capacityIn(in object) object {
	parts := object{}
	for _, part := range []string{"OnDemandThroughput", "ProvisionedThroughput"} {
		if in[part] != nil {
			parts[part] = in[part]
		}
	}
	if in["BillingMode"] == "PAY_PER_REQUEST" {
		parts["BillingModeSummary"] = object{"BillingMode": "PAY_PER_REQUEST"}
	}
	return parts
}

func (s *schema) answer(op string, _ int, in object) reply {
	switch op {
	case "CreateTable":
		if s.exists {
			return failure(400, "ResourceInUseException", nil)
		}
		*s = *ours()
		s.looks = 0
		s.capacity, s.indexCapacity = capacityIn(in), capacityIn(in["GlobalSecondaryIndexes"].([]any)[0].(object))
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
	case "PutItem":
		if s.format != "" {
			return failure(400, "ConditionalCheckFailedException", object{"Item": markOf(s.format)})
		}
		s.format = in["Item"].(object)["format"].(object)["N"].(string)
	case "GetItem":
		if s.format != "" {
			return reply{body: object{"Item": markOf(s.format)}}
		}
	case "Scan":
		if s.item != nil {
			return reply{body: object{"Items": []object{s.item}}}
		}
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
	if s.capacity != nil {
		delete(d, "BillingModeSummary")
	}
	maps.Copy(d, s.capacity)
	if s.indexKey != nil {
		index := object{"IndexName": "GSI1", "KeySchema": elements(s.indexKey), "Projection": object{"ProjectionType": s.projection}}
		maps.Copy(index, s.indexCapacity)
		d["GlobalSecondaryIndexes"] = []object{index}
	}
	d["AttributeDefinitions"] = defs
	return d
}

func TestCreateMakesTheTableAndWaitsForIt(t *testing.T) {
	t.Parallel()
	s := &schema{}
	f := newFake(t, s.answer)
	store := openFake(t, f)
	for _, want := range []bool{true, false} { // Create may run more than once
		made, err := store.Create(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, made)
	}
	assert.Len(t, f.seen("CreateTable"), 1, "tables were asked for")
	d, err := store.Describe(t.Context())
	require.NoError(t, err)
	if d.Name != "t" || d.Status != "ACTIVE" || d.Billing != "PAY_PER_REQUEST" || d.TTL != "ttl" || d.Items != 12 || len(d.Differences) != 0 {
		t.Errorf("description %+v", d)
	}
}

func TestCreateRefusesATableOfAnotherKind(t *testing.T) {
	t.Parallel()
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
			_, err := openFake(t, f).Create(t.Context())
			differs, ok := errors.AsType[*dynamo.SchemaError](err)
			if !ok || len(differs.Differences) != 1 || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want a SchemaError that says %q", err, want)
			}
			assert.Empty(t, f.seen("UpdateTimeToLive"), "a table of another kind was changed")
		})
	}
}

// A table of a development version has items and no format. No program may use such a table, and no call
// changes it.
func TestATableOfAnotherFormatIsRefused(t *testing.T) {
	t.Parallel()
	item := object{"PK": object{"S": "u#ann"}, "SK": object{"S": "profile"}}
	for name, tt := range map[string]struct {
		stored string
		want   string
	}{
		"a development version": {"", "fanfare table create gives one to a new table; if a development version before v0.1.0 wrote this one, choose another FANFARE_TABLE"},
		"a newer version":       {"7", "has format 7, but this version of fanfare reads formats up to 1: use a newer fanfare"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &schema{
				exists: true, looks: 10, key: []string{"PK", "SK"}, indexKey: []string{"GSI1PK", "GSI1SK"}, projection: "ALL", ttl: "ttl",
				format: tt.stored, item: item,
			}
			f := newFake(t, s.answer)
			store := openFake(t, f)
			_, err := store.Create(t.Context())
			for _, err := range []error{err, store.Ping(t.Context())} {
				assert.ErrorAs(t, err, new(*dynamo.FormatError))
				assert.ErrorContains(t, err, tt.want)
			}
			assert.Empty(t, f.seen("PutItem"))
		})
	}
}

// Two processes create one table at the same time: the slower process finds the format that the faster
// process wrote.
func TestANewTableGetsItsFormatOnce(t *testing.T) {
	t.Parallel()
	s := &schema{}
	f := newFake(t, func(op string, n int, in object) reply {
		if op == "PutItem" {
			s.format = "1"
		}
		return s.answer(op, n, in)
	})
	store := openFake(t, f)
	_, err := store.Create(t.Context())
	require.NoError(t, err)
	assert.NoError(t, store.Ping(t.Context()))
	assert.Len(t, f.seen("PutItem"), 1)
}

func TestAFailureToWriteTheFormatFailsCreate(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"Scan", "PutItem", "GetItem"} {
		s := &schema{}
		f := newFake(t, func(now string, n int, in object) reply {
			if now == op {
				return failure(400, "AccessDeniedException", nil)
			}
			return s.answer(now, n, in)
		})
		_, err := openFake(t, f).Create(t.Context())
		assert.ErrorContains(t, err, "AccessDeniedException", op)
	}
}

func TestCreateEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &schema{exists: true, key: []string{"PK", "SK"}}
	f := newFake(t, func(op string, n int, in object) reply {
		s.looks = 0 // the table never becomes active
		cancel()
		return s.answer(op, n, in)
	})
	_, err := openFake(t, f).Create(ctx)
	assert.Error(t, err, "a table that never becomes active was created")
}
