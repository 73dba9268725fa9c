package dynamo_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

// Calls of both kinds, of many at once, by credentials that change: none has anything
// of another's, whose memory it uses again. The SDK has to make none of them.
func TestCallsByHandKeepNothingOfEachOther(t *testing.T) {
	var mu sync.Mutex
	current := aws.Credentials{SecretAccessKey: "secret"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Header.Get("Amz-Sdk-Request") != "" {
			t.Error("the SDK made a call")
		}
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		text := string(body)
		reply := `{"UnprocessedItems":{}}`
		switch {
		case op == "Query" && strings.Contains(text, "KeyConditionExpression"):
			_, pk, _ := strings.Cut(text, `{"S":"`)
			pk, _, _ = strings.Cut(pk, `"`)
			reply = `{"Count":1,"Items":[{"PK":{"S":"` + pk + `"},"SK":{"S":"s"}}],"ScannedCount":1}`
		case op != "BatchWriteItem" || !strings.Contains(text, "PutRequest"):
			t.Errorf("%s has the body %s", op, text)
		}
		mu.Lock()
		want := current
		mu.Unlock()
		if signature := r.Header.Get("Authorization"); !strings.Contains(signature, "Credential="+want.AccessKeyID+"/") {
			t.Errorf("signed %s, want %s", signature, want.AccessKeyID)
		}
		if token := strings.Join(r.Header.Values("X-Amz-Security-Token"), ","); token != want.SessionToken {
			t.Errorf("token %q, want %q", token, want.SessionToken)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(reply)))
		_, _ = io.WriteString(w, reply) // a client that has not got it says so itself
	}))
	defer server.Close()
	cfg := configFor(t, server.URL)
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		mu.Lock()
		defer mu.Unlock()
		return current, nil
	})
	store := dynamo.New(dynamodb.NewFromConfig(cfg), "t")
	for round := range 10 {
		mu.Lock()
		current.AccessKeyID, current.SessionToken = fmt.Sprint("AKID", round/2), fmt.Sprint("token", round)
		if round%4 == 3 {
			current.SessionToken = ""
		}
		mu.Unlock()
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for j := range 10 {
					pk := fmt.Sprint("p", i, "-", j)
					items, _, err := table.Collect(store.Query(t.Context(), table.Query{PK: pk}), 0)
					if err != nil || len(items) != 1 || items[0].Key.PK != pk {
						t.Errorf("query of %s: %v, %v", pk, items, err)
					}
					if _, err := store.BatchWrite(t.Context(), putsOf(30)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
	}
}

// A port that the signer leaves out is no reason for the SDK to make the calls.
func TestAnEndpointWithItsDefaultPortIsUsedByHand(t *testing.T) {
	for _, endpoint := range []string{"https://example.com:443", "http://example.com:80", "https://example.com", "http://example.com:8000"} {
		tap := wireTap{status: 200, body: []byte(`{}`)}
		store := dynamo.New(dynamodb.New(dynamodb.Options{
			Region: "eu-central-1", HTTPClient: &tap, Retryer: aws.NopRetryer{}, BaseEndpoint: &endpoint,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
		}), "fan.fare-1")
		if _, err := store.BatchWrite(t.Context(), putsOf(1)); err != nil {
			t.Fatal(err)
		}
		if len(tap.requests) != 1 || tap.requests[0].Header.Get("Amz-Sdk-Request") != "" {
			t.Fatalf("%s: %d requests, want one by hand", endpoint, len(tap.requests))
		}
		if err := signed(tap.requests[0], tap.bodies[0]); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// skewed is an endpoint that refuses all but the SDK's calls, as DynamoDB does when the
// clock here is wrong, for which the SDK makes up.
type skewed struct {
	wireTap
	byHand int
}

func (s *skewed) Do(req *http.Request) (*http.Response, error) {
	s.status, s.body = 200, []byte(`{}`)
	if req.Header.Get("Amz-Sdk-Request") == "" {
		s.byHand++
		s.status, s.body = 400, []byte(`{"__type":"com.amazon.coral.service#InvalidSignatureException"}`)
	}
	return s.wireTap.Do(req)
}

func TestWhatAlwaysFailsByHandIsSeldomTried(t *testing.T) {
	var client skewed
	pauses := 0
	store := dynamo.New(dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", HTTPClient: &client, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
	}), "t", dynamo.WithBackoff(func(int) time.Duration { pauses++; return 0 }))
	for range 8 + 640 {
		if _, _, err := table.Collect(store.Query(t.Context(), table.Query{PK: "p"}), 0); err != nil {
			t.Fatal(err)
		}
	}
	if client.byHand != 8+10 || pauses != client.byHand {
		t.Errorf("%d calls were tried by hand, with %d pauses, of 648", client.byHand, pauses)
	}
}

func TestItemsThatNobodyAskedForAreNoEnds(t *testing.T) {
	items := []object{{"PK": str("p"), "SK": str("a")}, {"PK": str("p"), "SK": str("b")}}
	f := newFake(t, func(_ string, n int, _ object) reply {
		if n == 1 {
			return reply{body: object{"Count": 2, "Items": items, "LastEvaluatedKey": items[1]}}
		}
		return reply{body: object{"Count": 2, "Items": items}}
	})
	ends, _, err := table.Collect(openFake(t, f).Query(t.Context(), table.Query{PK: "p", EndsOnly: true}), 0)
	if err != nil || len(ends) != 1 || ends[0].Key.SK != "b" {
		t.Errorf("ends %v, %v", ends, err)
	}
}
