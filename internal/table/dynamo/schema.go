package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fanfare/internal/awsclient"
	"fanfare/internal/backoff"
	"fanfare/internal/table"
)

// Description is DynamoDB's description of the table.
type Description struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Capacity
	// Items and Bytes may be some hours old, because DynamoDB counts only from time to time.
	Items int64 `json:"items"`
	Bytes int64 `json:"bytes"`
	// TTL is the attribute that makes items expire, "" for none.
	TTL string `json:"ttl"`
	// DeletionProtection reports whether DynamoDB refuses to delete the table.
	DeletionProtection bool `json:"deletion_protection"`
	// Differences has the reasons why this table cannot be Fanfare's table.
	Differences []string `json:"differences"`
}

// SchemaError means that a table with this name exists but is not Fanfare's table.
type SchemaError struct {
	Table       string
	Differences []string
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("table: %q exists with another schema (%s): choose another FANFARE_TABLE, or delete it",
		e.Table, strings.Join(e.Differences, "; "))
}

const (
	// pollInterval is the default of WithPoll.
	pollInterval = 500 * time.Millisecond
	// createTime is added to the timeout of the calls of Create, because an emulator may start
	// only at the first call.
	createTime = 20 * time.Second
)

// Create calls CreateAs with the zero Plan.
func (s *Store) Create(ctx context.Context) (made bool, err error) { return s.CreateAs(ctx, Plan{}) }

// CreateAs creates the table unless it exists, enables the expiry of items, writes the table's
// format, and returns when the table can be used. It returns a SchemaError for a table with
// another schema, a CapacityError for a table with another capacity than plan, and a FormatError
// for a table with items of another format. CreateAs does not change such a table. made reports
// whether this call created the table. CreateAs may run any number of times, also concurrently.
func (s *Store) CreateAs(ctx context.Context, plan Plan) (made bool, err error) {
	ctx = awsclient.Patient(ctx, createTime)
	for {
		d, err := s.Describe(ctx)
		if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
			_, err = s.client.CreateTable(ctx, s.createInput(plan))
			if _, known := errors.AsType[*types.ResourceInUseException](err); err != nil && !known {
				return made, s.fail("create", err)
			}
			made = made || err == nil
		} else if err != nil {
			return made, err
		}
		if d.Status == string(types.TableStatusActive) {
			if differences := plan.differences(d.Capacity); len(d.Differences) == 0 && len(differences) > 0 {
				return made, &CapacityError{s.name, differences, plan.update(s.name, d.Capacity)}
			}
			return made, s.finish(ctx, d)
		}
		if err := backoff.Wait(ctx, s.poll); err != nil {
			return made, s.fail("create", err)
		}
	}
}

// finish enables the expiry of items and writes the format. It returns a SchemaError or a
// FormatError if the table does not fit.
func (s *Store) finish(ctx context.Context, d Description) error {
	if d.TTL == "" && len(d.Differences) == 0 {
		_, err := s.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName: &s.name,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{
				AttributeName: aws.String(table.AttrTTL), Enabled: aws.Bool(true),
			},
		})
		// Another Create may have enabled the expiry, so only the state of the table counts.
		again, descErr := s.Describe(ctx)
		if descErr != nil {
			return descErr
		}
		if again.TTL == "" && err != nil {
			return s.fail("create", err)
		}
		d = again
	}
	if len(d.Differences) > 0 {
		return &SchemaError{s.name, d.Differences}
	}
	return s.mark(ctx)
}

func (s *Store) createInput(plan Plan) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName: &s.name,
		KeySchema: keySchema(table.AttrPK, table.AttrSK),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(indexName), KeySchema: keySchema(table.AttrGSI1PK, table.AttrGSI1SK),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	}
	for _, name := range []string{table.AttrPK, table.AttrSK, table.AttrGSI1PK, table.AttrGSI1SK} {
		in.AttributeDefinitions = append(in.AttributeDefinitions,
			types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS})
	}
	plan.applyTo(in)
	return in
}

func keySchema(pk, sk string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(pk), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sk), KeyType: types.KeyTypeRange},
	}
}

// Describe returns the description of the table.
func (s *Store) Describe(ctx context.Context) (Description, error) {
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.name})
	if err != nil {
		return Description{}, s.fail("describe", err)
	}
	d := Description{
		Name: aws.ToString(out.Table.TableName), Status: string(out.Table.TableStatus),
		Capacity: capacityOf(out.Table),
		Items:    aws.ToInt64(out.Table.ItemCount), Bytes: aws.ToInt64(out.Table.TableSizeBytes),
		DeletionProtection: aws.ToBool(out.Table.DeletionProtectionEnabled),
	}
	ttl, err := s.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &s.name})
	if err != nil {
		return Description{}, s.fail("describe", err)
	}
	if t := ttl.TimeToLiveDescription; t != nil && (t.TimeToLiveStatus == types.TimeToLiveStatusEnabled ||
		t.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		d.TTL = aws.ToString(t.AttributeName)
	}
	d.Differences = differences(out.Table, d)
	return d, nil
}

// PointInTimeRecovery reports whether DynamoDB can restore the table to any second of the last days.
func (s *Store) PointInTimeRecovery(ctx context.Context) (bool, error) {
	out, err := s.client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &s.name})
	if err != nil {
		return false, s.fail("describe backups", err)
	}
	d := out.ContinuousBackupsDescription
	return d != nil && d.PointInTimeRecoveryDescription != nil &&
		d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled, nil
}

// differences returns the reasons why a table cannot be Fanfare's table. The capacity is not
// among them, because the operator chooses it.
func differences(t *types.TableDescription, d Description) []string {
	var out []string
	attrTypes := make(map[string]types.ScalarAttributeType, len(t.AttributeDefinitions))
	for _, a := range t.AttributeDefinitions {
		attrTypes[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	check := func(subject string, have []types.KeySchemaElement, pk, sk string) {
		want := pk + " (S), " + sk + " (S)"
		var is []string
		for _, k := range have {
			name := aws.ToString(k.AttributeName)
			is = append(is, fmt.Sprintf("%s (%s)", name, attrTypes[name]))
		}
		if got := strings.Join(is, ", "); got != want {
			out = append(out, fmt.Sprintf("the key of %s is %s, not %s", subject, got, want))
		}
	}
	check("the table", t.KeySchema, table.AttrPK, table.AttrSK)
	at := slices.IndexFunc(t.GlobalSecondaryIndexes, func(g types.GlobalSecondaryIndexDescription) bool {
		return aws.ToString(g.IndexName) == indexName
	})
	if at < 0 {
		out = append(out, "there is no index "+indexName)
	} else {
		index := t.GlobalSecondaryIndexes[at]
		check(indexName, index.KeySchema, table.AttrGSI1PK, table.AttrGSI1SK)
		if index.Projection == nil || index.Projection.ProjectionType != types.ProjectionTypeAll {
			out = append(out, indexName+" does not project all attributes")
		}
	}
	if d.TTL != "" && d.TTL != table.AttrTTL {
		out = append(out, fmt.Sprintf("items expire by %s, not by %s", d.TTL, table.AttrTTL))
	}
	return out
}
