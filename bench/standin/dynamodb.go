package standin

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DynamoDB ends a page at pageBytes, and counts rowBytes for a follower.
const (
	pageBytes = 1 << 20
	rowBytes  = 60
)

// Table is the name of the one table. Replies contain the name, because a client may refuse a reply with
// another name.
const Table = "fanfare"

// New returns the endpoint's handler.
func New(opt Options) http.Handler {
	return &endpoint{opt: opt, items: make(map[string]map[string]item)}
}

// attribute is an attribute's value in a request or a reply: S or N.
type attribute struct {
	S *string `json:",omitempty"`
	N *string `json:",omitempty"`
}

type item map[string]attribute

func (it item) str(name string) string {
	if v := it[name].S; v != nil {
		return *v
	}
	return ""
}

type endpoint struct {
	opt Options

	mu sync.Mutex
	// items holds the kept items by partition and sort key.
	items map[string]map[string]item
}

// request holds the parameters of all requests except BatchWriteItem.
type request struct {
	Key, Item                 item
	ConditionExpression       string
	UpdateExpression          string
	ReturnValues              string
	KeyConditionExpression    string
	ProjectionExpression      string
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]attribute
	ExclusiveStartKey         item
	Limit                     int
	Select                    string
	ScanIndexForward          *bool
	RequestItems              map[string]struct{ Keys []item }
	TransactItems             []struct{ Put, Update, Delete *request }
}

type object = map[string]any

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left
	}
	if e.opt.Latency > 0 {
		timer := time.NewTimer(e.opt.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	status, reply := e.answer(op, body)
	h := w.Header()
	h.Set("Content-Type", "application/x-amz-json-1.0")
	h.Set("Content-Length", strconv.Itoa(len(reply)))
	h["x-amz-crc32"] = []string{strconv.FormatUint(uint64(crc32.ChecksumIEEE(reply)), 10)} // spelled as by AWS
	h["x-amzn-RequestId"] = []string{"STANDIN00000000000000000000000000000000000000000000A"}
	w.WriteHeader(status)
	_, _ = w.Write(reply) // a client that has left needs no reply
}

func (e *endpoint) answer(op string, body []byte) (status int, reply []byte) {
	if op == "BatchWriteItem" {
		n := bytes.Count(body, []byte(`Request":`))
		return http.StatusOK, fmtUnits(n)
	}
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		return refusal("SerializationException", nil)
	}
	if op == "Query" {
		if pk := in.partition(); strings.HasSuffix(pk, "#follower") {
			return http.StatusOK, e.followers(pk, in)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	units := object{"TableName": Table, "CapacityUnits": 1}
	out := object{"ConsumedCapacity": units}
	switch op {
	case "Query":
		items := e.kept(in)
		out["Items"], out["Count"] = items, len(items)
	case "GetItem":
		if it := e.get(in.Key); it != nil {
			out["Item"] = it
		}
	case "BatchGetItem":
		responses := object{}
		for name, want := range in.RequestItems {
			found := []item{}
			for _, key := range want.Keys {
				if it := e.get(key); it != nil {
					found = append(found, it)
				}
			}
			responses[name] = found
		}
		out = object{"Responses": responses, "ConsumedCapacity": []object{units}}
	case "PutItem", "UpdateItem", "DeleteItem":
		if old := e.write(in); old != nil {
			return refusal("ConditionalCheckFailedException", old)
		}
		if in.ReturnValues == "ALL_NEW" {
			out["Attributes"] = e.get(in.Key)
		}
	case "TransactWriteItems":
		for _, part := range in.TransactItems {
			for _, one := range []*request{part.Put, part.Update, part.Delete} {
				if one != nil {
					e.write(*one) // the condition is ignored
				}
			}
		}
		out["ConsumedCapacity"] = []object{units}
	default:
		return refusal("UnknownOperationException", nil)
	}
	reply, err := json.Marshal(out)
	if err != nil {
		return refusal("InternalServerError", nil)
	}
	return http.StatusOK, reply
}

func fmtUnits(n int) []byte {
	b := append(make([]byte, 0, 96), `{"ConsumedCapacity":[{"CapacityUnits":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, `.0,"TableName":"`+Table+`"}],"UnprocessedItems":{}}`...)
}

func refusal(code string, old item) (status int, reply []byte) {
	out := object{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": "the stand-in refuses"}
	if old != nil {
		out["Item"] = old
	}
	reply, err := json.Marshal(out)
	if err != nil {
		reply = []byte("{}") // strings never fail
	}
	return http.StatusBadRequest, reply
}

// partition returns the partition that a query names.
func (in request) partition() string {
	_, rest, _ := strings.Cut(in.KeyConditionExpression, "= ")
	placeholder, _, _ := strings.Cut(rest, " ")
	return item(in.ExpressionAttributeValues).str(placeholder)
}

// asksFor reports whether the reply to a query has an attribute.
func (in request) asksFor(name string) bool {
	if in.ProjectionExpression == "" {
		return true
	}
	for part := range strings.SplitSeq(in.ProjectionExpression, ", ") {
		if part == name || in.ExpressionAttributeNames[part] == name {
			return true
		}
	}
	return false
}

// bounds returns the first and the last sort key of a query; "" is an open bound.
func (in request) bounds() (low, high string) {
	_, sk, _ := strings.Cut(in.KeyConditionExpression, " AND ")
	words := strings.Fields(sk)
	value := func(i int) string { return item(in.ExpressionAttributeValues).str(words[i]) }
	switch {
	case len(words) == 5 && words[1] == "BETWEEN":
		return value(2), value(4)
	case len(words) == 3 && words[1] == ">=":
		return value(2), ""
	case len(words) == 3 && words[1] == "<=":
		return "", value(2)
	}
	return "", ""
}

// followers generates a page of followers in ascending order.
func (e *endpoint) followers(pk string, in request) []byte {
	low, high := in.bounds()
	key := func(n int) string { return "u#" + Follower(n) }
	all, few := e.opt.Few[strings.TrimSuffix(strings.TrimPrefix(pk, "u#"), "#follower")]
	if !few {
		all = e.opt.Followers
	}
	from := sort.Search(all, func(n int) bool { return key(n) >= low })
	if after := in.ExclusiveStartKey.str("SK"); after >= low && after != "" {
		from = sort.Search(all, func(n int) bool { return key(n) > after })
	}
	end := all
	if high != "" {
		end = sort.Search(all, func(n int) bool { return key(n) > high })
	}
	limit := pageBytes / rowBytes
	if in.Limit > 0 {
		limit = min(limit, in.Limit)
	}
	to := max(from, min(end, from+limit))
	b := append(make([]byte, 0, 256+(to-from)*(48+len(pk))), `{"ConsumedCapacity":{"CapacityUnits":128.0,"TableName":"`+Table+`"},"Count":`...)
	b = strconv.AppendInt(b, int64(to-from), 10)
	if in.Select != "COUNT" {
		shown := pk
		if !in.asksFor("PK") {
			shown = ""
		}
		b = append(b, `,"Items":[`...)
		for n := from; n < to; n++ {
			if n > from {
				b = append(b, ',')
			}
			b = appendFollower(b, shown, n)
		}
		b = append(b, ']')
	}
	b = append(b, `,"ScannedCount":`...)
	b = strconv.AppendInt(b, int64(to-from), 10)
	if to < end && to > from || to-from == in.Limit && to > from { // DynamoDB does not look ahead either
		b = append(b, `,"LastEvaluatedKey":`...)
		b = appendFollower(b, pk, to-1)
	}
	return append(b, '}')
}

// appendFollower appends an item with both keys, or with the sort key alone.
func appendFollower(b []byte, pk string, n int) []byte {
	b = append(b, '{')
	if pk != "" {
		b = append(b, `"PK":{"S":"`...)
		b = append(b, pk...)
		b = append(b, `"},`...)
	}
	b = append(b, `"SK":{"S":"u#f`...)
	digits := strconv.Itoa(n)
	b = append(b, "000000000"[len(digits):]...)
	b = append(b, digits...)
	return append(b, `"}}`...)
}

// kept returns the stored items in the range of a query.
func (e *endpoint) kept(in request) []item {
	low, high := in.bounds()
	partition, after := e.items[in.partition()], in.ExclusiveStartKey.str("SK")
	descending := in.ScanIndexForward != nil && !*in.ScanIndexForward
	out := []item{}
	for _, sk := range slices.Sorted(maps.Keys(partition)) {
		passed := sk <= after
		if descending {
			passed = after != "" && sk >= after
		}
		if !passed && sk >= low && (high == "" || sk <= high) {
			out = append(out, partition[sk])
		}
	}
	if descending {
		slices.Reverse(out)
	}
	return out
}

func (e *endpoint) get(key item) item { return e.items[key.str("PK")][key.str("SK")] }

// write does a put, an update or a delete. If the item must be absent but exists, write returns the item
// and changes nothing.
func (e *endpoint) write(in request) item {
	key := in.Key
	if in.Item != nil {
		key = in.Item
	}
	old := e.get(key)
	if old != nil && strings.HasPrefix(in.ConditionExpression, "attribute_not_exists(") && in.ExpressionAttributeNames["#0"] == "PK" {
		return old
	}
	pk, sk := key.str("PK"), key.str("SK")
	switch {
	case strings.HasSuffix(pk, "#timeline"):
	case in.Item != nil:
		e.put(pk, sk, in.Item)
	case in.UpdateExpression != "":
		e.put(pk, sk, in.update(old))
	default:
		delete(e.items[pk], sk)
	}
	return nil
}

func (e *endpoint) put(pk, sk string, it item) {
	if e.items[pk] == nil {
		e.items[pk] = make(map[string]item)
	}
	e.items[pk][sk] = it
}

// update applies an update expression, in the form that Fanfare uses, to the item old.
func (in request) update(old item) item {
	out := item{}
	maps.Copy(out, old)
	maps.Copy(out, in.Key)
	words := strings.Fields(strings.ReplaceAll(in.UpdateExpression, ",", " "))
	clause := ""
	for i := 0; i < len(words); i++ {
		name := in.ExpressionAttributeNames[words[i]]
		switch {
		case name == "":
			clause = words[i]
		case clause == "SET" && i+2 < len(words):
			out[name] = in.ExpressionAttributeValues[words[i+2]]
			i += 2
		case clause == "ADD" && i+1 < len(words):
			sum := strconv.FormatInt(number(out[name])+number(in.ExpressionAttributeValues[words[i+1]]), 10)
			out[name] = attribute{N: &sum}
			i++
		case clause == "REMOVE":
			delete(out, name)
		}
	}
	return out
}

func number(a attribute) int64 {
	if a.N == nil {
		return 0
	}
	n, err := strconv.ParseInt(*a.N, 10, 64)
	if err != nil {
		return 0 // Fanfare writes integers only
	}
	return n
}
