package dynamo

import (
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"fanfare/internal/table"
)

// The JSON of the requests BatchWriteItem and Query. It is the SDK's, with the members
// in another order.

// appendBatchWrite appends the body of a BatchWriteItem request.
func appendBatchWrite(b []byte, name string, writes []table.BatchWrite) []byte {
	b = slices.Grow(b, 100+200*len(writes)) // an entry of a timeline takes about 190
	b = append(b, `{"RequestItems":{`...)
	b = appendString(b, name)
	b = append(b, `:[`...)
	var last *table.Item
	var from, to int // the part of b that follows the partition key of last
	for i, w := range writes {
		if i > 0 {
			b = append(b, ',')
		}
		if w.Put == nil {
			b = append(b, `{"DeleteRequest":{"Key":{`...)
			b = appendKey(b, w.Delete)
			b = append(b, `}}}`...)
			continue
		}
		b = append(b, `{"PutRequest":{"Item":{"PK":{"S":`...)
		b = appendString(b, w.Put.Key.PK)
		// The entries of one post differ in the partition key alone.
		if last != nil && last.Key.SK == w.Put.Key.SK && slices.Equal(last.Attrs, w.Put.Attrs) {
			b = append(b, b[from:to]...)
			continue
		}
		last, from = w.Put, len(b)
		b = append(b, `},"SK":{"S":`...)
		b = appendString(b, w.Put.Key.SK)
		b = append(b, '}')
		for _, a := range w.Put.Attrs {
			b = append(b, ',')
			b = appendString(b, a.Name)
			b = append(b, ':')
			b = appendValue(b, a.Value)
		}
		b = append(b, `}}}`...)
		to = len(b)
	}
	return append(b, `]},"ReturnConsumedCapacity":"TOTAL"}`...)
}

// appendQuery appends the body of a Query request, which is what queryInput returned.
func appendQuery(b []byte, in *dynamodb.QueryInput) ([]byte, error) {
	b = append(b, `{"TableName":`...)
	b = appendString(b, *in.TableName)
	b = append(b, `,"ConsistentRead":`...)
	b = strconv.AppendBool(b, *in.ConsistentRead)
	b = append(b, `,"ScanIndexForward":`...)
	b = strconv.AppendBool(b, *in.ScanIndexForward)
	b = append(b, `,"ReturnConsumedCapacity":"TOTAL","KeyConditionExpression":`...)
	b = appendString(b, *in.KeyConditionExpression)
	if in.IndexName != nil {
		b = append(b, `,"IndexName":`...)
		b = appendString(b, *in.IndexName)
	}
	if in.ProjectionExpression != nil {
		b = append(b, `,"ProjectionExpression":`...)
		b = appendString(b, *in.ProjectionExpression)
	}
	if in.Select != "" {
		b = append(b, `,"Select":`...)
		b = appendString(b, string(in.Select))
	}
	if in.Limit != nil {
		b = append(b, `,"Limit":`...)
		b = strconv.AppendInt(b, int64(*in.Limit), 10)
	}
	b = append(b, `,"ExpressionAttributeNames":{`...)
	for i := range len(in.ExpressionAttributeNames) { // their placeholders are numbers
		placeholder := "#" + strconv.Itoa(i)
		b = appendMember(b, i, placeholder)
		b = appendString(b, in.ExpressionAttributeNames[placeholder])
	}
	b = append(b, `},"ExpressionAttributeValues":{`...)
	var err error
	for i := range len(in.ExpressionAttributeValues) {
		placeholder := ":" + strconv.Itoa(i)
		b = appendMember(b, i, placeholder)
		if b, err = appendAttribute(b, in.ExpressionAttributeValues[placeholder]); err != nil {
			return b, err
		}
	}
	b = append(b, '}')
	if in.ExclusiveStartKey != nil {
		b = append(b, `,"ExclusiveStartKey":{`...)
		i := 0
		for name, v := range in.ExclusiveStartKey {
			b = appendMember(b, i, name)
			if b, err = appendAttribute(b, v); err != nil {
				return b, err
			}
			i++
		}
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

func appendMember(b []byte, i int, name string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return append(appendString(b, name), ':')
}

func appendAttribute(b []byte, av types.AttributeValue) ([]byte, error) {
	v, err := decodeValue(av)
	if err != nil {
		return b, err
	}
	return appendValue(b, v), nil
}

func appendKey(b []byte, k table.Key) []byte {
	b = append(b, `"PK":{"S":`...)
	b = appendString(b, k.PK)
	b = append(b, `},"SK":{"S":`...)
	b = appendString(b, k.SK)
	return append(b, '}')
}

func appendValue(b []byte, v table.Value) []byte {
	if v.Kind() == table.KindNumber {
		b = append(b, `{"N":"`...)
		b = strconv.AppendInt(b, v.Int(), 10)
		return append(b, `"}`...)
	}
	b = append(b, `{"S":`...)
	b = appendString(b, v.Str())
	return append(b, '}')
}

// appendString appends a JSON string. The caller has checked that s is UTF-8.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		if c < ' ' {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			b = append(b, '\\', c)
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
