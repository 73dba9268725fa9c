package dynamo

import (
	"bytes"
	"context"
	"slices"
	"strconv"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"fanfare/internal/table"
)

// batchProtocol is the SDK's protocol for one BatchWriteItem, except that this package writes
// the body. A fan-out makes many such calls, and the SDK would need a map with values for each
// item.
type batchProtocol struct {
	smithyhttp.ClientProtocol
	table  string
	writes []table.BatchWrite
}

// SerializeRequest implements smithyhttp.ClientProtocol. The SDK writes the header and a body
// without writes. Then SerializeRequest replaces the body.
func (p batchProtocol) SerializeRequest(ctx context.Context, operation *smithy.OperationSchema, in smithy.Serializable, req *smithyhttp.Request) error {
	if err := p.ClientProtocol.SerializeRequest(ctx, operation, in, req); err != nil {
		return err
	}
	full, err := req.SetStream(bytes.NewReader(appendBatchWrite(nil, p.table, p.writes)))
	if err == nil {
		*req = *full
	}
	return err
}

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
		// The entries of one post differ only in their partition key.
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
