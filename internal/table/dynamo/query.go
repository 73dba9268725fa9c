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
			reply, err := s.queryPage(ctx, in)
			if err != nil {
				yield(table.Page{}, err)
				return
			}
			page := table.Page{Items: trim(reply.items, q, r), More: reply.last != nil, Units: table.Units{Read: reply.units}}
			if q.EndsOnly {
				page.Items = nil // what an emulator may have sent all the same
				if page.More {
					page.Items = []table.Item{{Key: reply.last.Key}}
				}
			}
			if !yield(page, nil) || !page.More {
				return
			}
			in.ExclusiveStartKey = encodeItem(*reply.last)
		}
	}
}

// queryPage asks for one page.
func (s *Store) queryPage(ctx context.Context, in *dynamodb.QueryInput) (queryReply, error) {
	if s.hand.usable() {
		reply, err := s.hand.query(ctx, in)
		if err == nil {
			return reply, nil
		}
		if err := pause(ctx, s.backoff(1)); err != nil {
			return queryReply{}, s.fail(table.OpQuery, err)
		}
	}
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return queryReply{}, s.fail(table.OpQuery, err)
	}
	reply := queryReply{units: readUnits(out.ConsumedCapacity).Read}
	if reply.items, err = decodeItems(out.Items); err != nil {
		return queryReply{}, err
	}
	reply.last, err = decodeOptional(out.LastEvaluatedKey)
	return reply, err
}

// trim leaves out what was read for the range's sake only.
func trim(items []table.Item, q table.Query, r keyRange) []table.Item {
	if r.skip == "" {
		return items
	}
	for len(items) > 0 && items[0].Str(table.AttrGSI1SK) == r.skip {
		items = items[1:] // they come first, since the range begins with them
	}
	if q.Project != nil && !slices.Contains(q.Project, table.AttrGSI1SK) {
		for i := range items {
			items[i].Attrs = slices.DeleteFunc(items[i].Attrs, func(a table.Attr) bool { return a.Name == table.AttrGSI1SK })
		}
	}
	return items
}

// keyRange is a query's range of sort keys, with After worked in.
type keyRange struct {
	low, high string
	// open says that low, or high if that is set, is not in the range itself.
	open bool
	// start is the sort key to start behind: an ExclusiveStartKey.
	start string
	// skip is a sort key at the beginning of the range to be left out here.
	skip  string
	empty bool
}

// rangeOf works After into the bounds. On the table it becomes an exclusive start
// key, which DynamoDB takes for any key within the bounds, there or not. The index
// wants the whole key of the item, which After does not tell, so the range is made
// narrower. DynamoDB has no range with two bounds of which one is open: then the
// range begins with After itself, which is left out here. Such a page may be one
// item short of its size, or empty with more to follow; every page moves on.
func rangeOf(q table.Query) keyRange {
	r := keyRange{low: q.Low, high: q.High}
	after := q.After
	if q.Descending {
		if after != "" && q.High != "" && after > q.High {
			after = "" // reading starts at the bound, behind it
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
		in.Limit = aws.Int32(int32(min(q.PageSize, 1<<20))) // a page of 1 MB has fewer
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
		project = append([]string{table.AttrGSI1SK}, project...) // to know what to leave out
	}
	in.ProjectionExpression = e.projection(project)
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
