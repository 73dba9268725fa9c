package dynamo_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

// wireTap is an HTTP client that keeps a request and answers {}.
type wireTap struct {
	request *http.Request
	body    []byte
}

func (w *wireTap) Do(req *http.Request) (res *http.Response, err error) {
	w.request = req
	if w.body, err = io.ReadAll(req.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		ContentLength: 2, Body: io.NopCloser(bytes.NewReader([]byte("{}"))), Request: req,
	}, nil
}

var credentials = aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", SessionToken: "token"}

// over returns the SDK's client that uses an HTTP client. It does not retry.
func over(client aws.HTTPClient) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", HTTPClient: client, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
	})
}

// signed verifies a request as DynamoDB does: it signs the request again and compares the signatures.
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

// drawWrites draws the writes of a request. Entries of one post have the same sort key and attributes.
func drawWrites(t *rapid.T) (writes []table.BatchWrite) {
	shared := drawItem(t, 0)
	for n := range rapid.IntRange(1, 25).Draw(t, "writes") {
		it := drawItem(t, n)
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			writes = append(writes, table.BatchWrite{Delete: it.Key})
			continue
		case 1:
			it = shared
			it.Key.PK += fmt.Sprint("#", n)
		}
		writes = append(writes, table.BatchWrite{Put: &it})
	}
	return writes
}

// sendBySDK sends the writes with the SDK's own encoder.
func sendBySDK(client *dynamodb.Client, name string, writes []table.BatchWrite) error {
	key := func(k table.Key) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: k.PK}, "SK": &types.AttributeValueMemberS{Value: k.SK}}
	}
	requests := make([]types.WriteRequest, len(writes))
	for i, w := range writes {
		if w.Put == nil {
			requests[i].DeleteRequest = &types.DeleteRequest{Key: key(w.Delete)}
			continue
		}
		item := key(w.Put.Key)
		for _, a := range w.Put.Attrs {
			item[a.Name] = &types.AttributeValueMemberS{Value: a.Value.Str()}
			if a.Value.Kind() == table.KindNumber {
				item[a.Name] = &types.AttributeValueMemberN{Value: fmt.Sprint(a.Value.Int())}
			}
		}
		requests[i].PutRequest = &types.PutRequest{Item: item}
	}
	_, err := client.BatchWriteItem(context.Background(), &dynamodb.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{name: requests}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	return err
}

// A batch has the address, the header and the body of the SDK's request, and a valid signature.
func TestWritesAreSentAsTheSDKSendsThem(t *testing.T) {
	t.Parallel()
	const name = "fan.fare-1"
	rapid.Check(t, func(t *rapid.T) {
		writes := drawWrites(t)
		var got, want wireTap
		_, err := dynamo.New(over(&got), name).BatchWrite(context.Background(), writes)
		require.NoError(t, err)
		require.NoError(t, sendBySDK(over(&want), name, writes))
		assert.Equal(t, want.request.URL, got.request.URL)
		for _, header := range []string{"Content-Type", "X-Amz-Target", "Accept-Encoding", "X-Amz-Security-Token"} {
			assert.Len(t, got.request.Header[header], 1)
			assert.Equal(t, want.request.Header[header], got.request.Header[header])
		}
		assert.Equal(t, int64(len(got.body)), got.request.ContentLength)
		var gotBody, wantBody any
		require.NoError(t, json.Unmarshal(got.body, &gotBody))
		require.NoError(t, json.Unmarshal(want.body, &wantBody))
		assert.Equal(t, wantBody, gotBody)
		require.NoError(t, signed(got.request, got.body))
	})
}
