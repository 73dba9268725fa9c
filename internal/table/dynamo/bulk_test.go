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
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

// Many calls of both kinds run at once, and the credentials change meanwhile. No call
// gets anything of another one, and the SDK has to make none of them.
func TestBulkCallsKeepApart(t *testing.T) {
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
		_, _ = io.WriteString(w, reply) // a client that did not get it reports that itself
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

// Requests of the own codec have the address and the signing scope of the SDK's.
func TestBulkCallsUseTheSDKsEndpoint(t *testing.T) {
	at := func(endpoint string) func(*dynamodb.Options) {
		return func(o *dynamodb.Options) { o.BaseEndpoint = &endpoint }
	}
	for name, set := range map[string]func(*dynamodb.Options){
		"of the region":     func(*dynamodb.Options) {},
		"default TLS port":  at("https://example.com:443"), // the signer leaves a default port out
		"default port":      at("http://example.com:80"),
		"other port":        at("http://example.com:8000"),
		"with a path":       at("https://example.com/dynamo"),
		"of DynamoDB Local": func(o *dynamodb.Options) { o.Region = "local" },
		"of China":          func(o *dynamodb.Options) { o.Region = "cn-north-1" },
		"FIPS":              func(o *dynamodb.Options) { o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled },
		"dual stack":        func(o *dynamodb.Options) { o.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled },
		"of the account":    func(o *dynamodb.Options) { o.AccountIDEndpointMode = aws.AccountIDEndpointModeRequired },
		"of no account":     func(o *dynamodb.Options) { o.AccountIDEndpointMode = aws.AccountIDEndpointModeDisabled },
	} {
		t.Run(name, func(t *testing.T) {
			var sent [2]string
			for i, options := range [][]dynamo.Option{nil, {dynamo.WithSDKOnly()}} {
				tap := wireTap{status: 200, body: []byte(`{}`)}
				store := dynamo.New(dynamodb.New(dynamodb.Options{
					Region: "us-east-1", HTTPClient: &tap, Retryer: aws.NopRetryer{},
					Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
						return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", AccountID: "123456789012"}, nil
					}),
				}, set), "fan.fare-1", options...)
				_, err := store.BatchWrite(t.Context(), putsOf(1))
				require.NoError(t, err)
				req := tap.requests[0]
				scope, _, _ := strings.Cut(req.Header.Get("Authorization"), ",")
				sent[i] = fmt.Sprint(req.URL, " ", scope)
				if len(tap.requests) != 1 || (req.Header.Get("Amz-Sdk-Request") == "") != (i == 0) {
					t.Errorf("%d requests, want one, and the SDK's only if it was asked for", len(tap.requests))
				}
			}
			if sent[0] != sent[1] {
				t.Errorf("own codec: %s\nSDK:       %s", sent[0], sent[1])
			}
		})
	}
}

// A resolver of another kind may change its answer, so the SDK makes the calls.
func TestAnotherResolverIsTheSDKs(t *testing.T) {
	tap := wireTap{status: 200, body: []byte(`{}`)}
	store := dynamo.New(dynamodb.New(dynamodb.Options{
		Region: "us-east-1", HTTPClient: &tap, EndpointResolverV2: resolver{dynamodb.NewDefaultEndpointResolverV2()},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
	}), "t")
	if _, err := store.BatchWrite(t.Context(), putsOf(1)); err != nil || tap.requests[0].Header.Get("Amz-Sdk-Request") == "" {
		t.Errorf("error %v, want the SDK to have made the call", err)
	}
}

type resolver struct{ dynamodb.EndpointResolverV2 }

// skewed is an endpoint that accepts only the SDK's calls. DynamoDB does so when the
// clock here is wrong, because the SDK corrects the time in its signatures.
type skewed struct {
	wireTap
	refused int
}

func (s *skewed) Do(req *http.Request) (*http.Response, error) {
	s.status, s.body = 200, []byte(`{}`)
	if req.Header.Get("Amz-Sdk-Request") == "" {
		s.refused++
		s.status, s.body = 400, []byte(`{"__type":"com.amazon.coral.service#InvalidSignatureException"}`)
	}
	return s.wireTap.Do(req)
}

func TestBulkCallsThatAlwaysFailAreSeldomTried(t *testing.T) {
	var client skewed
	pauses := 0
	store := dynamo.New(dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", HTTPClient: &client, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
	}), "t", dynamo.WithBackoff(func(int) time.Duration { pauses++; return 0 }))
	for range 8 + 640 {
		_, _, err := table.Collect(store.Query(t.Context(), table.Query{PK: "p"}), 0)
		require.NoError(t, err)
	}
	if client.refused != 8+10 || pauses != client.refused {
		t.Errorf("%d calls of 648 were tried without the SDK, with %d pauses", client.refused, pauses)
	}
}

func TestItemsBesidesACountAreNoEnds(t *testing.T) {
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
