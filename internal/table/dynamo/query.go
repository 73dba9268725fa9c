package dynamo

import (
	"context"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fanfare/internal/table"
)

// Query implements table.Store.
func (s *Store) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	return func(yield func(table.Page, error) bool) {
		if err := q.Validate(); err != nil {
			yield(table.Page{}, err)
			return
		}
		r := rangeOf(q)
		if r.empty {
			yield(table.Page{}, nil)
			return
		}
		in := s.queryInput(q, r)
		for {
			page, last, err := s.queryPage(ctx, in, q)
			if err != nil {
				yield(table.Page{}, err)
				return
			}
			page.Items = trim(page.Items, q, r)
			if !yield(page, nil) || !page.More {
				return
			}
			in.ExclusiveStartKey = last
		}
	}
}

// queryPage requests one page. If more pages follow, queryPage also returns the key at the page's end.
func (s *Store) queryPage(ctx context.Context, in *dynamodb.QueryInput, q table.Query) (page table.Page, last map[string]types.AttributeValue, err error) {
	out, err := s.client.Query(about(ctx, subject{op: table.OpQuery, pk: q.PK}), in)
	if err != nil {
		return page, nil, s.fail(table.OpQuery, err)
	}
	page.Units, page.More = readUnits(out.ConsumedCapacity), len(out.LastEvaluatedKey) > 0
	if !q.EndsOnly { // an emulator may have sent items in spite of SelectCount
		page.Items, err = decodeItems(out.Items)
		for i := range page.Items {
			if !q.Index {
				page.Items[i].Key.PK = q.PK
			}
		}
		return page, out.LastEvaluatedKey, err
	}
	if page.More {
		end, err := decodeItem(out.LastEvaluatedKey)
		if err != nil {
			return page, nil, err
		}
		page.Items = []table.Item{{Key: end.Key}}
	}
	return page, out.LastEvaluatedKey, nil
}

// trim removes the items and attributes that were read only because of the form of the range.
func trim(items []table.Item, q table.Query, r keyRange) []table.Item {
	if r.skip == "" {
		return items
	}
	for len(items) > 0 && items[0].Str(table.AttrGSI1SK) == r.skip {
		items = items[1:] // these items are at the beginning of the range
	}
	if q.Project != nil && !slices.Contains(q.Project, table.AttrGSI1SK) {
		for i := range items {
			items[i].Attrs = slices.DeleteFunc(items[i].Attrs, func(a table.Attr) bool { return a.Name == table.AttrGSI1SK })
		}
	}
	return items
}

// keyRange is the range of a query's sort keys, narrowed by After.
type keyRange struct {
	low, high string
	// open excludes low from the range. If low is empty, open excludes high.
	open bool
	// start is the sort key of an ExclusiveStartKey: the range begins after start.
	start string
	// skip is a sort key at the beginning of the range. trim removes its items.
	skip  string
	empty bool
}

// rangeOf narrows the bounds of q by After. On the table, After becomes an exclusive start key:
// DynamoDB accepts any key within the bounds, even if there is no such item. On the index, an
// exclusive start key must be the whole key of an item, and After is only a part of such a key.
// So for the index, rangeOf narrows the range itself. DynamoDB has no range with one open and
// one closed bound. Instead, the range begins with After itself, and trim removes its items.
// Then a page may be one item short, or empty although more pages follow; but every page makes
// progress.
func rangeOf(q table.Query) keyRange {
	r := keyRange{low: q.Low, high: q.High}
	after := q.After
	if q.Descending {
		if after != "" && q.High != "" && after > q.High {
			after = "" // the read starts at the bound, which is after After
		}
		r.empty = after != "" && after <= q.Low
	} else {
		if after != "" && after < q.Low {
			after = ""
		}
		r.empty = after != "" && q.High != "" && after >= q.High
	}
	r.empty = r.empty || (q.High != "" && q.Low > q.High)
	switch {
	case after == "" || r.empty:
	case !q.Index:
		r.start = after
	case q.Descending:
		r.high = after
		r.open = q.Low == ""
	default:
		r.low = after
		r.open = q.High == ""
	}
	if after != "" && q.Index && !r.open {
		r.skip = after
	}
	return r
}

func (s *Store) queryInput(q table.Query, r keyRange) *dynamodb.QueryInput {
	var e expr
	pk, sk := table.AttrPK, table.AttrSK
	in := &dynamodb.QueryInput{
		TableName: &s.name, ScanIndexForward: aws.Bool(!q.Descending), ConsistentRead: &q.Consistent,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
	if q.Index {
		in.IndexName = aws.String(indexName)
		pk, sk = table.AttrGSI1PK, table.AttrGSI1SK
	}
	if q.PageSize > 0 {
		in.Limit = aws.Int32(int32(min(q.PageSize, 1<<20))) // a page of 1 MB has fewer items
	}
	if r.start != "" {
		in.ExclusiveStartKey = encodeKey(table.Key{PK: q.PK, SK: r.start})
	}
	where := e.name(pk) + " = " + e.value(table.S(q.PK))
	switch {
	case r.low != "" && r.high != "":
		where += " AND " + e.name(sk) + " BETWEEN " + e.value(table.S(r.low)) + " AND " + e.value(table.S(r.high))
	case r.low != "":
		where += " AND " + e.name(sk) + operator(" >", r.open) + e.value(table.S(r.low))
	case r.high != "":
		where += " AND " + e.name(sk) + operator(" <", r.open) + e.value(table.S(r.high))
	}
	in.KeyConditionExpression = &where
	project := q.Project
	if project != nil && r.skip != "" {
		project = append([]string{table.AttrGSI1SK}, project...) // trim needs it
	}
	if in.ProjectionExpression = e.projection(project); project != nil && !q.Index {
		in.ProjectionExpression = e.list(append([]string{sk}, project...)) // the partition key is known from q
	}
	if q.EndsOnly {
		in.Select = types.SelectCount
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	return in
}

func operator(sign string, open bool) string {
	if open {
		return sign + " "
	}
	return sign + "= "
}
