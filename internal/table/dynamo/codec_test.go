package dynamo_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

// wireTap is an HTTP client that keeps each request and gives a fixed answer.
type wireTap struct {
	mu       sync.Mutex
	requests []*http.Request
	bodies   [][]byte
	status   int
	body     []byte
	// noCRC leaves the checksum out, badCRC sends a wrong one.
	noCRC, badCRC bool
}

func (w *wireTap) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests, w.bodies = append(w.requests, req), append(w.bodies, body)
	res := &http.Response{
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		ContentLength: int64(len(w.body)), Body: io.NopCloser(bytes.NewReader(w.body)), Request: req,
	}
	sum := crc32.ChecksumIEEE(w.body)
	if w.badCRC {
		sum++
	}
	if !w.noCRC {
		res.Header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(sum), 10))
	}
	return res, nil
}

var credentials = aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "token"}

// onTap makes a Store on an HTTP client. The Store neither waits nor retries.
func onTap(client aws.HTTPClient, options ...dynamo.Option) *dynamo.Store {
	return dynamo.New(dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", HTTPClient: client, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
	}), "fan.fare-1", append(options, dynamo.WithBackoff(func(int) time.Duration { return 0 }))...)
}

// headersThatMatter are the headers that DynamoDB acts upon.
var headersThatMatter = []string{"Content-Type", "X-Amz-Target", "Accept-Encoding", "X-Amz-Security-Token"}

// sameRequests compares the requests of the Store's own codec with the SDK's.
func sameRequests(t interface {
	Fatalf(format string, args ...any)
}, own, sdk *wireTap) {
	if len(own.requests) != len(sdk.requests) {
		t.Fatalf("%d requests by the own codec, %d by the SDK", len(own.requests), len(sdk.requests))
	}
	for i, got := range own.requests {
		want := sdk.requests[i]
		if got.Method != want.Method || got.URL.String() != want.URL.String() {
			t.Fatalf("%s %s by the own codec, %s %s by the SDK", got.Method, got.URL, want.Method, want.URL)
		}
		for _, name := range headersThatMatter {
			if !slices.Equal(got.Header[name], want.Header[name]) || len(got.Header[name]) != 1 {
				t.Fatalf("%s: %q by the own codec, %q by the SDK", name, got.Header[name], want.Header[name])
			}
		}
		var gotBody, wantBody any
		if err := errors.Join(json.Unmarshal(own.bodies[i], &gotBody), json.Unmarshal(sdk.bodies[i], &wantBody)); err != nil {
			t.Fatalf("%v: %s", err, own.bodies[i])
		}
		if !reflect.DeepEqual(gotBody, wantBody) {
			t.Fatalf("body by the own codec\n%s, by the SDK\n%s", own.bodies[i], sdk.bodies[i])
		}
		if err := signed(got, own.bodies[i]); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// signed verifies a request as DynamoDB does: it signs the request again and compares.
func signed(req *http.Request, body []byte) error {
	at, err := time.Parse("20060102T150405Z", req.Header.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	again := req.Clone(req.Context())
	again.Header.Del("Authorization")
	again.ContentLength = int64(len(body))
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(req.Context(), credentials, again, hex.EncodeToString(sum[:]), "dynamodb", "eu-central-1", at); err != nil {
		return err
	}
	if got, want := req.Header.Get("Authorization"), again.Header.Get("Authorization"); got != want {
		return fmt.Errorf("Authorization %q, want %q", got, want)
	}
	return nil
}

var (
	text = rapid.OneOf(
		rapid.StringMatching(`[a-z0-9#_-]{1,20}`), rapid.StringN(1, 12, 40),
		rapid.SampledFrom([]string{"\"", "\\", "\x00", "\x1f\t\n\r", "\u2028\u2029", "</script>&", "\u007f", "é😀", "\ufffd"}),
	)
	value = rapid.OneOf(
		rapid.Map(rapid.Int64(), table.N), rapid.Map(text, table.S), rapid.Just(table.S("")),
	)
)

func drawItem(t *rapid.T, n int) table.Item {
	it := table.Item{Key: table.Key{PK: text.Draw(t, "pk"), SK: fmt.Sprint(text.Draw(t, "sk"), n)}}
	for i := range rapid.IntRange(0, 4).Draw(t, "attributes") {
		it.Attrs = append(it.Attrs, table.Attr{Name: fmt.Sprint(text.Draw(t, "name"), i), Value: value.Draw(t, "value")})
	}
	return it
}

func TestWritesAreSentAsTheSDKSendsThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var writes []table.BatchWrite
		shared := drawItem(t, 0) // entries of one post share sort key and attributes
		for n := range rapid.IntRange(1, 25).Draw(t, "writes") {
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				writes = append(writes, table.BatchWrite{Delete: drawItem(t, n).Key})
			case 1:
				it := drawItem(t, n)
				writes = append(writes, table.BatchWrite{Put: &it})
			case 2:
				it := shared
				it.Key.PK += fmt.Sprint("#", n)
				writes = append(writes, table.BatchWrite{Put: &it})
			}
		}
		own, sdk := wireTap{status: 200, body: []byte("{}")}, wireTap{status: 200, body: []byte("{}")}
		_, err := onTap(&own).BatchWrite(context.Background(), writes)
		_, sdkErr := onTap(&sdk, dynamo.WithSDKOnly()).BatchWrite(context.Background(), writes)
		if err != nil || sdkErr != nil {
			t.Fatalf("own codec: %v; SDK: %v", err, sdkErr)
		}
		sameRequests(t, &own, &sdk)
	})
}

func TestQueriesAreSentAsTheSDKSendsThem(t *testing.T) {
	bound := rapid.OneOf(rapid.Just(""), text)
	rapid.Check(t, func(t *rapid.T) {
		q := table.Query{
			Index: rapid.Bool().Draw(t, "index"), PK: text.Draw(t, "pk"),
			Low: bound.Draw(t, "low"), High: bound.Draw(t, "high"), After: bound.Draw(t, "after"),
			Descending: rapid.Bool().Draw(t, "descending"), PageSize: rapid.SampledFrom([]int{0, 1, 1000, 1 << 40}).Draw(t, "size"),
			Project: rapid.SampledFrom([][]string{nil, {}, {"ttl"}, {"a", "a", "PK", "GSI1SK"}}).Draw(t, "project"),
		}
		q.EndsOnly = !q.Index && q.Project == nil && rapid.Bool().Draw(t, "ends only")
		q.Consistent = !q.Index && rapid.Bool().Draw(t, "consistent")
		var taps [2]wireTap
		for i, options := range [][]dynamo.Option{nil, {dynamo.WithSDKOnly()}} {
			taps[i].status = 200
			// The request of the next page has the end of the page before it.
			pk, err := json.Marshal(q.PK)
			require.NoError(t, err)
			taps[i].body = fmt.Appendf(nil, `{"LastEvaluatedKey":{"PK":{"S":%s},"SK":{"S":"\"é"},"GSI1PK":{"S":%s},"GSI1SK":{"S":"s"}}}`, pk, pk)
			pages := 0
			for _, err := range onTap(&taps[i], options...).Query(context.Background(), q) {
				require.NoError(t, err)
				if pages++; pages == 2 {
					break
				}
			}
		}
		sameRequests(t, &taps[0], &taps[1])
	})
}

// outcome is the caller's view of a reply.
type outcome struct {
	items  []table.Item
	more   bool
	units  table.Units
	failed bool
}

// ask makes a query, or a batch write of 0001 to 0003, that a reply answers.
func ask(tap *wireTap, query bool, options ...dynamo.Option) (_ outcome, err error) {
	store := onTap(tap, options...)
	// The SDK panics on some replies that are not JSON. Our decoder must not.
	defer func() {
		if p := recover(); p != nil {
			if last := tap.requests[len(tap.requests)-1]; last.Header.Get("Amz-Sdk-Request") == "" {
				panic(p)
			}
			err = fmt.Errorf("the SDK panics: %v", p)
		}
	}()
	if !query {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		writes := putsOf(4)[1:]
		writes[1] = table.BatchWrite{Delete: writes[1].Key()}
		res, err := store.BatchWrite(ctx, writes)
		return outcome{units: res.Units, failed: err != nil}, err
	}
	for page, err := range store.Query(context.Background(), table.Query{PK: "p"}) {
		return outcome{page.Items, page.More, page.Units, err != nil}, err
	}
	return outcome{}, nil
}

// goodPages are replies to a query that our decoder must read.
func goodPages() []string {
	return []string{
		`{}`,
		` {"Count" : 1 , "Items":[ { "PK":{"S":"p"}, "SK":{"S":"s"} } ] ,"ScannedCount":1}` + "\n",
		`{"ConsumedCapacity":{"CapacityUnits":128.5,"TableName":"fan.fare-1"},"Count":2,"Items":[{"SK":{"S":"1"},"PK":{"S":"p"},"ttl":{"N":"1700000000"}},{"z":{"S":"\"\\\/\b\f\n\r\té😀\ud83d\ude00\ud800"},"PK":{"S":"p"},"SK":{"S":"2"},"a":{"N":"-9223372036854775808"},"b":{"S":""}}],"LastEvaluatedKey":{"PK":{"S":"p"},"SK":{"S":"2"}},"ScannedCount":2}`,
		`{"Items":[],"Count":0,"ScannedCount":0,"LastEvaluatedKey":{},"New":[{"a":[1,-2.5e+7,true,false,null,"x"]}],"ConsumedCapacity":{"CapacityUnits":5e-1,"ReadCapacityUnits":1,"New":0}}`,
		`{"\u0049tems":[{"\u0050K":{"\u0053":"\u0070"}}],"Count":1}`,
		`{"Items": [{"SK":{"S":"a"}, "PK":{"S":"p"}}, {"SK":{"S":"b"}, "PK":{"S":"p"}}, {"SK":{"S":"c"}, "PK":{"S":"p"}, "a":{"N":"1"}}, {"SK":{"S":"d"}, "PK":{"S":"p"}}],"Count":4}`,
	}
}

// goodWrites are replies to a batch write that our decoder must read.
func goodWrites() []string {
	return []string{
		`{}`, `{"UnprocessedItems":{}}`,
		`{"ConsumedCapacity":[{"CapacityUnits":3.0,"TableName":"fan.fare-1"}],"UnprocessedItems":{},"ItemCollectionMetrics":{}}`,
		`{"ConsumedCapacity":[],"UnprocessedItems":{"fan.fare-1":[]}}`,
	}
}

// strangeReplies are replies that the SDK has to read, or that it cannot read either.
func strangeReplies() []string {
	return []string{
		``, `null`, `[]`, `{`, `{}x`, `{"Items":null}`, `{"Items":[null]}`, `{"Items":[{"a":null}]}`, `{"Items":[{"a":{}}]}`,
		`{"Items":[{"a":{"BOOL":true}}]}`, `{"Items":[{"a":{"NULL":true}}]}`, `{"Items":[{"a":{"L":[]}}]}`, `{"Items":[{"a":{"S":"x","N":"1"}}]}`,
		`{"Items":[{"a":{"N":"1.5"}}]}`, `{"Items":[{"a":{"N":"9223372036854775808"}}]}`, `{"Items":[{"a":{"N":"1e400"}}]}`, `{"Items":[{"a":{"N":1}}]}`,
		`{"Items":[{"a":{"S":"1"},"a":{"S":"2"}}]}`, `{"Items":[{"PK":{"N":"1"}}]}`, `{"Items":[{"PK":{"S":"1"},"PK":{"S":"2"}}]}`,
		`{"Items":[{"a":{"S":"\x"}}]}`, "{\"Items\":[{\"a\":{\"S\":\"\n\"}}]}", "{\"Items\":[{\"a\":{\"S\":\"\xff\"}}]}", "{\"Items\":[{\"a\":{\"S\":\"\xff\\n\"}}]}",
		`{"Items":[],"Items":[{}]}`, `{"Items":[{}]}`, `{"Count":1}`, `{"Count":2,"Items":[{"PK":{"S":"p"}}]}`, `{"Items":[{"PK":{"S":"p"}}]}`,
		`{"Count":1,"Items":[{"PK":{"S":"q"},"SK":{"S":"s"}}]}`, `{"LastEvaluatedKey":{"PK":{"S":"q"},"SK":{"S":"s"}}}`, `{"ConsumedCapacity":{"TableName":"other"}}`,
		`{"ConsumedCapacity":[{"CapacityUnits":1,"TableName":"other"}]}`, `{"Count":1.5}`, `{"Count":99999999999}`, `{"Count":01}`, `{"Count":-1,"Items":[{}]}`, `{"Count":2147483647,"Items":[{}]}`,
		`{"ConsumedCapacity":{"CapacityUnits":"NaN"}}`, `{"ConsumedCapacity":{"CapacityUnits":1e999}}`, `{"ConsumedCapacity":{"Table":{"CapacityUnits":1}}}`,
		`{"ConsumedCapacity":{"Table":5}}`, `{"ConsumedCapacity":5}`, `{"LastEvaluatedKey":{"PK":{"BOOL":true}}}`, `{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		`{"UnprocessedItems":null}`, `{"UnprocessedItems":{"other":[{"PutRequest":{"Item":{"PK":{"S":"p"}}}}]}}`, `{"UnprocessedItems":{"fan.fare-1":[{}]}}`,
		`{"UnprocessedItems":{"fan.fare-1":[{"PutRequest":{"Item":{"PK":{"S":"p"},"SK":{"S":"0009"}}}}]}}`,
		`{"UnprocessedItems":{"fan.fare-1":[{"PutRequest":{"Item":{"PK":{"S":"p"},"SK":{"S":"0001"}}}},{"DeleteRequest":{"Key":{"PK":{"S":"p"},"SK":{"S":"0002"}}}}]}}`,
		`{"ConsumedCapacity":[{"CapacityUnits":1},null]}`, `{"ItemCollectionMetrics":{"t":[]}}`, `{"ItemCollectionMetrics":5}`,
	}
}

// The caller sees the same outcome of any reply as with the SDK alone.
func FuzzRepliesMeanWhatTheSDKMakesOfThem(f *testing.F) {
	for _, reply := range goodPages() {
		f.Add([]byte(reply), true)
	}
	for _, reply := range goodWrites() {
		f.Add([]byte(reply), false)
	}
	for _, reply := range strangeReplies() {
		f.Add([]byte(reply), true)
		f.Add([]byte(reply), false)
	}
	f.Fuzz(func(t *testing.T, reply []byte, query bool) { meansTheSame(t, reply, query) })
}

// These replies are put together of parts of others. A fuzzer takes long to find them.
func TestGarbledRepliesMeanWhatTheSDKMakesOfThem(t *testing.T) {
	replies := slices.Concat(goodPages(), goodWrites(), strangeReplies())
	parts := []string{
		"null", "{}", "[]", `""`, ",", ":", "{", "}", "[", "]", `"S"`, `"N"`, `"PK"`, `"SK"`, `"Items"`, `"Count"`, `"1"`, "1", "-0", "1.0", "1e1",
		`{"S":"x"}`, `{"N":"7"}`, `{"N":"+7"}`, `{"PK":{"S":"p"},"SK":{"S":"s"}}`, `"x":1,`, `"\u0000\udc00"`, " ", "\x00", "\xff", "\\", "\ufeff",
	}
	rapid.Check(t, func(t *rapid.T) {
		reply := []byte(rapid.SampledFrom(replies).Draw(t, "reply"))
		for range rapid.IntRange(0, 4).Draw(t, "changes") {
			from := rapid.IntRange(0, len(reply)).Draw(t, "from")
			to := min(len(reply), from+rapid.IntRange(0, 12).Draw(t, "length"))
			part := []byte(rapid.SampledFrom(parts).Draw(t, "part"))
			if rapid.Bool().Draw(t, "again") {
				part = slices.Clone(reply[from:to])
				to = from
			}
			reply = slices.Replace(reply, from, to, part...)
		}
		meansTheSame(t, reply, rapid.Bool().Draw(t, "query"))
	})
}

func meansTheSame(t interface {
	Errorf(format string, args ...any)
}, reply []byte, query bool) {
	own, sdk := wireTap{status: 200, body: reply}, wireTap{status: 200, body: reply}
	got, err := ask(&own, query)
	want, sdkErr := ask(&sdk, query, dynamo.WithSDKOnly())
	got.failed, want.failed = err != nil, sdkErr != nil
	if got.units.Write != want.units.Write && got.failed && want.failed {
		got.units = want.units // the last try is the SDK's, but our first one may be billed
	}
	if math.IsNaN(got.units.Read) && math.IsNaN(want.units.Read) {
		got.units, want.units = table.Units{}, table.Units{}
	}
	if len(got.items) == 0 && len(want.items) == 0 {
		got.items, want.items = nil, nil
	}
	for _, o := range []*outcome{&got, &want} { // an empty list may be nil
		for i := range o.items {
			if len(o.items[i].Attrs) == 0 {
				o.items[i].Attrs = nil
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("reply %q\nown codec %+v, error %v\nSDK       %+v, error %v", reply, got, err, want, sdkErr)
	}
}

// The comparisons above prove nothing if the SDK reads every reply.
func TestGoodRepliesAreReadByOurDecoder(t *testing.T) {
	check := func(reply string, query bool) {
		tap := wireTap{status: 200, body: []byte(reply)}
		if _, err := ask(&tap, query); err != nil || len(tap.requests) != 1 || tap.requests[0].Header.Get("Amz-Sdk-Request") != "" {
			t.Errorf("reply %s: error %v after %d requests, want one, not by the SDK", reply, err, len(tap.requests))
		}
	}
	for _, reply := range goodPages() {
		check(reply, true)
	}
	for _, reply := range goodWrites() {
		check(reply, false)
	}
}

func TestAReplyWithAWrongChecksumIsAskedForAgain(t *testing.T) {
	for _, query := range []bool{true, false} {
		tap := wireTap{status: 200, body: []byte(`{}`), badCRC: true}
		if _, err := ask(&tap, query); err != nil || len(tap.requests) != 2 {
			t.Errorf("error %v after %d requests, want two, the second by the SDK", err, len(tap.requests))
		}
		tap = wireTap{status: 200, body: []byte(`{}`), noCRC: true}
		if _, err := ask(&tap, query); err != nil || len(tap.requests) != 1 {
			t.Errorf("error %v after %d requests, want one: emulators send no checksum", err, len(tap.requests))
		}
	}
}
