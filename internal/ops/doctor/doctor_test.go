package doctor_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/datadir"
	"fanfare/internal/ops/doctor"
	"fanfare/internal/queue/sqstest"
)

// amazon simulates AWS with a table and queues as the product makes them.
type amazon struct {
	*sqstest.Server
	// answers are the answers of DynamoDB by operation. An answer that contains __type is an error.
	answers map[string]string
	skew    time.Duration
	// metrics handles the requests to CloudWatch.
	metrics http.HandlerFunc
}

const fits = `{"Table":{"TableName":"mine","TableStatus":"ACTIVE","DeletionProtectionEnabled":true,"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST"},` +
	`"KeySchema":[{"AttributeName":"PK","KeyType":"HASH"},{"AttributeName":"SK","KeyType":"RANGE"}],"GlobalSecondaryIndexes":[{"IndexName":"GSI1",` +
	`"KeySchema":[{"AttributeName":"GSI1PK","KeyType":"HASH"},{"AttributeName":"GSI1SK","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}],` +
	`"AttributeDefinitions":[{"AttributeName":"PK","AttributeType":"S"},{"AttributeName":"SK","AttributeType":"S"},{"AttributeName":"GSI1PK","AttributeType":"S"},{"AttributeName":"GSI1SK","AttributeType":"S"}]}}`

func refusal(code string) string {
	return fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"m","CancellationReasons":[{"Code":"ConditionalCheckFailed"},{"Code":"None"}]}`, code)
}

// markOf returns DynamoDB's answer with the item that holds a table's format.
func markOf(format int) string {
	return fmt.Sprintf(`{"Item":{"PK":{"S":"format"},"SK":{"S":"format"},"format":{"N":"%d"}}}`, format)
}

// settingsOf returns the JSON of an item with the settings of a role, followed by a comma.
func settingsOf(role, values string) string {
	return `{"PK":{"S":"settings"},"SK":{"S":"` + role + `"},"at":{"N":"1795698000000"},` + values + `},`
}

func newAmazon(t *testing.T) *amazon {
	t.Helper()
	a := &amazon{Server: sqstest.New(0), answers: map[string]string{
		"DescribeTable":             fits,
		"DescribeTimeToLive":        `{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLED","AttributeName":"ttl"}}`,
		"DescribeContinuousBackups": `{"ContinuousBackupsDescription":{"PointInTimeRecoveryDescription":{"PointInTimeRecoveryStatus":"ENABLED"}}}`,
		"lifetimes":                 "{}",
		"GetItem":                   markOf(1), "BatchGetItem": "{}", "BatchWriteItem": "{}", "Query": `{"Items":[],"Count":0}`, "Scan": `{"Items":[],"Count":0}`,
		"PutItem": refusal("ConditionalCheckFailedException"), "UpdateItem": refusal("ConditionalCheckFailedException"),
		"DeleteItem": refusal("ConditionalCheckFailedException"), "TransactWriteItems": refusal("TransactionCanceledException"),
	}}
	a.Hurry()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amzn-Requestid", "test")
		w.Header().Set("Date", time.Now().Add(a.skew).UTC().Format(http.TimeFormat))
		service, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if strings.HasPrefix(r.URL.Path, "/service/GraniteServiceVersion20100801/") {
			a.metrics(w, r)
			return
		}
		if service == "AmazonSQS" {
			a.ServeHTTP(w, r)
			return
		}
		if body, _ := io.ReadAll(r.Body); op == "GetItem" && bytes.Contains(body, []byte("lifetimes")) && !strings.Contains(a.answers[op], "__type") {
			op = "lifetimes"
		}
		if items := strings.TrimSuffix(a.answers["settings"], ","); op == "BatchGetItem" && items != "" {
			_, _ = fmt.Fprintf(w, `{"Responses":{"mine":[%s]}}`, items) // the client may have left
			return
		}
		if strings.Contains(a.answers[op], "__type") {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = fmt.Fprint(w, a.answers[op]) // the client may have left
	}))
	t.Cleanup(server.Close)
	awsAt(t, server.URL)
	cfg, err := config.Load([]string{"FANFARE_ENGINE=aws"}, config.Tool)
	require.NoError(t, err)
	broker, err := daemon.OpenQueues(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, broker.Create(t.Context()))
	require.NoError(t, broker.Close())
	return a
}

// awsAt sets the variables of the AWS SDK, so that the SDK calls the endpoint url.
func awsAt(t *testing.T, url string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
}

func everyRole() daemon.Roles { return daemon.Roles{API: true, Fanout: true, Likes: true} }

func examine(t *testing.T, roles daemon.Roles, env ...string) []doctor.Finding {
	t.Helper()
	cfg, err := config.Load(env, config.Tool)
	require.NoError(t, err)
	return doctor.Examine(t.Context(), cfg, nil, roles, time.Now)
}

// notOK returns the findings that need an operator, and checks that each of these findings has a remedy.
func notOK(t *testing.T, found []doctor.Finding) []string {
	t.Helper()
	var out []string
	for _, f := range found {
		assert.NotContains(t, f.Says, "\n")
		if f.Level != doctor.LevelOK {
			assert.NotEmpty(t, f.Mend, "%+v", f)
			out = append(out, fmt.Sprintf("%s %s: %s", f.Level, f.Check, f.Says))
		}
	}
	return out
}

func onAWS() []string { return []string{"FANFARE_ENGINE=aws", "FANFARE_TABLE=mine"} }

func TestDoctorFindsEachFaultOfADeployment(t *testing.T) {
	type answers map[string]string
	type settings map[string]map[string]string
	for name, row := range map[string]struct {
		answers  answers
		settings settings
		denied   string // the denied operation of SQS
		skew     time.Duration
		// waits puts a message into the queue of posts.
		waits bool
		// workers also examines the roles of workers. Their receives take a second.
		workers bool
		// want has the findings that are not ok, in order: the beginning of each finding, and then further
		// texts that the finding must contain.
		want [][]string
	}{
		"a sound one": {workers: true},
		"no table":    {answers: answers{"DescribeTable": refusal("ResourceNotFoundException")}, want: [][]string{{"fault table", `no table "mine" in us-east-1`}}},
		"a table of others": {
			answers: answers{"DescribeTable": strings.NewReplacer(`"PK"`, `"id"`, "ALL", "KEYS_ONLY").Replace(fits)},
			want:    [][]string{{"fault table", "the key of the table is id (S)"}, {"fault table", "GSI1 does not project"}},
		},
		"a table in the making": {answers: answers{"DescribeTable": strings.ReplaceAll(fits, "ACTIVE", "CREATING")}, want: [][]string{{"fault table", "mine is CREATING"}}},
		"an unsafe table": {
			answers: answers{"DescribeTable": strings.ReplaceAll(fits, "true", "false"), "DescribeTimeToLive": "{}", "DescribeContinuousBackups": "{}"},
			want:    [][]string{{"fault expiry", "do not expire"}, {"warning deletion protection"}, {"warning point-in-time recovery", "no backup"}},
		},
		"a table of a development version": {answers: answers{"GetItem": "{}"}, want: [][]string{{"fault format", "before v0.1.0"}}},
		"a table of a newer version":       {answers: answers{"GetItem": markOf(2)}, want: [][]string{{"fault format", "use a newer fanfare"}}},
		"a table that nobody may read":     {answers: answers{"GetItem": refusal("AccessDeniedException")}, want: [][]string{{"fault calls to the table", "dynamodb:GetItem is refused"}}},
		"another TTL of homes": {
			answers: answers{"lifetimes": `{"Item":{"PK":{"S":"lifetimes"},"SK":{"S":"info"},"ttls":{"S":"0:604800000"}}}`},
			want:    [][]string{{"warning TTL of homes", "for 168h0m0s, and FANFARE_TIMELINE_TTL is 720h0m0s"}},
		},
		"settings that differ": {
			answers: answers{"settings": settingsOf("api", `"FANFARE_NOTIFICATIONS":{"S":"on"},"FANFARE_REACTIONS":{"S":"love"}`) + settingsOf("fanout", `"FANFARE_NOTIFICATIONS":{"S":"off"}`) +
				settingsOf("likeagg", `"FANFARE_NOTIFICATIONS":{"S":"on"},"FANFARE_REACTIONS":{"S":"none"}`)},
			want: [][]string{
				{"warning shared settings", "FANFARE_NOTIFICATIONS is off at here, fanout (started 2026-11-26T13:00:00Z), and on at api (started", ", likeagg (started"},
				{"warning shared settings", "FANFARE_REACTIONS is love at api (started", ", and none at here, likeagg"},
			},
		},
		"settings that agree": {answers: answers{"settings": settingsOf("api", `"FANFARE_NOTIFICATIONS":{"S":"off"}`) + settingsOf("fanout", `"FANFARE_NOTIFICATIONS":{"S":"off"}`)}},
		"a damaged TTL of homes": {
			answers: answers{"lifetimes": `{"Item":{"PK":{"S":"lifetimes"},"SK":{"S":"info"}}}`}, want: [][]string{{"fault TTL of homes"}},
		},
		"hidden backups": {answers: answers{"DescribeContinuousBackups": refusal("AccessDeniedException")}, want: [][]string{{"warning point-in-time recovery", "could not be checked"}}},
		"a hidden shape": {answers: answers{"DescribeTable": refusal("AccessDeniedException")}, want: [][]string{{"warning table", "could not be checked"}}},
		"a table to read": {
			answers: answers{"PutItem": refusal("AccessDeniedException"), "TransactWriteItems": refusal("AccessDeniedException"), "UpdateItem": refusal("ValidationException")},
			want: [][]string{
				{"fault calls to the table", "dynamodb:PutItem is refused"}, {"warning calls to the table", "dynamodb:UpdateItem could not be checked"},
				{"fault calls to the table", "transactions is refused"},
			},
		},
		"no redrive policy": {settings: settings{"fanfare-likes": {"RedrivePolicy": ""}}, want: [][]string{{"fault queue likes", "no redrive policy"}}},
		"other settings": {
			settings: settings{
				"fanfare-likes":     {"RedrivePolicy": `{"deadLetterTargetArn":"arn:other","maxReceiveCount":"3"}`},
				"fanfare-posts":     {"VisibilityTimeout": "5", "MessageRetentionPeriod": "3600"},
				"fanfare-posts-dlq": {"MessageRetentionPeriod": "60"},
			},
			want: [][]string{
				{"warning queue posts", "the queue keeps", "1h0m0s, not 336h0m0s"}, {"warning queue posts", "5s, not 1m0s"}, {"warning queue posts", "dead-letter queue keeps", "1m0s"},
				{"fault queue likes", "arn:other", "arn:fake:fanfare-likes-dlq"}, {"warning queue likes", "after 3 receives, not 1000"},
			},
		},
		"no sends": {workers: true, denied: "SendMessageBatch", waits: true, want: [][]string{
			{"fault calls to posts", "sqs:SendMessage is refused"}, {"warning calls to posts", "sqs:ReceiveMessage could not be checked", "1 messages wait"}, {"fault calls to posts", "dead-letter"},
			{"fault calls to backfills"}, {"fault calls to backfills"}, {"fault calls to chunks"}, {"fault calls to chunks"}, {"fault calls to likes"}, {"fault calls to likes"}, {"fault calls to notices"}, {"fault calls to notices"},
		}},
		"a clock that is hours off": {skew: 3 * time.Hour, want: [][]string{{"fault clock", "behind"}}},
		"a clock that is a bit off": {skew: -time.Minute, want: [][]string{{"warning clock", "off"}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAmazon(t)
			a.skew = row.skew
			maps.Copy(a.answers, row.answers)
			for queue, attributes := range row.settings {
				for name, value := range attributes {
					a.Set(queue, name, value)
				}
			}
			a.SetFault(func(op string) *sqstest.Fault {
				if op != row.denied {
					return nil
				}
				return &sqstest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}
			})
			waiting := 0
			if row.waits {
				waiting = 1
				require.NoError(t, a.Load("fanfare-posts", message.NewMessage("1", []byte("x"))))
			}
			roles := daemon.Roles{API: true}
			if row.workers {
				roles = everyRole()
			}
			found := notOK(t, examine(t, roles, onAWS()...))
			require.Len(t, found, len(row.want), "%q", found)
			for i, texts := range row.want {
				assert.True(t, strings.HasPrefix(found[i], texts[0]), "%q does not begin with %q", found[i], texts[0])
				for _, text := range texts[1:] {
					assert.Contains(t, found[i], text)
				}
			}
			assert.Equal(t, waiting, a.Visible("fanfare-posts"), "the examination leaves the queues as they are")
			assert.Zero(t, a.Len("fanfare-chunks")+a.Len("fanfare-likes")+a.Len("fanfare-posts-dlq"), "messages of the examination")
		})
	}
}

// The doctor finds no fault if a daemon's role has only the permissions of that daemon.
func TestDoctorTriesTheCallsOfTheNamedDaemonsOnly(t *testing.T) {
	a := newAmazon(t)
	a.answers["Query"] = refusal("AccessDeniedException")
	a.answers["TransactWriteItems"] = refusal("AccessDeniedException")
	assert.Empty(t, notOK(t, examine(t, daemon.Roles{Likes: true}, onAWS()...)))
	assert.Len(t, notOK(t, examine(t, daemon.Roles{API: true}, onAWS()...)), 3)
}

// A daemon needs the scan only for its auditor, and an operator needs the scan for verify.
func TestDoctorTriesTheScanOfVerifyAndOfTheAuditor(t *testing.T) {
	a := newAmazon(t)
	a.answers["Scan"] = refusal("AccessDeniedException")
	assert.Empty(t, notOK(t, examine(t, everyRole(), onAWS()...)))
	for who, found := range map[string][]doctor.Finding{
		"likeagg":  examine(t, daemon.Roles{Likes: true}, append(onAWS(), "FANFARE_AUDIT=on")...),
		"operator": examine(t, daemon.Roles{}, onAWS()...),
	} {
		require.Len(t, notOK(t, found), 1, who)
		i := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Level == doctor.LevelFault })
		assert.Contains(t, found[i].Says, "dynamodb:Scan is refused")
		assert.Equal(t, "allow dynamodb:Scan to the role of "+who, found[i].Mend)
	}
}

// The calls of an auditor are a part of the operator's policy, which another test compares with a recorded
// run. The auditor also makes the writes that end kept blocks.
func TestThePolicyOfADaemonAllowsItsAuditorItsCalls(t *testing.T) {
	actions := func(duty string, env ...string) (out []string) {
		cfg, err := config.Load(env, config.Tool)
		require.NoError(t, err)
		policy, err := doctor.PolicyOf(cfg, doctor.Account{}, duty)
		require.NoError(t, err)
		for _, s := range policy.Statement {
			for _, action := range s.Action {
				for _, resource := range s.Resource {
					out = append(out, action+" "+resource)
				}
			}
		}
		return out
	}
	operator := actions("operator")
	for _, duty := range []string{"api", "fanout", "likeagg"} {
		without, with := actions(duty), actions(duty, "FANFARE_AUDIT=on")
		added := slices.DeleteFunc(slices.Clone(with), func(action string) bool { return slices.Contains(without, action) })
		assert.Contains(t, added, "dynamodb:Scan arn:aws:dynamodb:*:*:table/fanfare", duty)
		assert.Contains(t, with, "sqs:SendMessage arn:aws:sqs:*:*:fanfare-backfills", duty)
		assert.Subset(t, with, without, duty)
		var own []string
		for _, action := range []string{"Query", "PutItem", "DeleteItem"} {
			own = append(own, "dynamodb:"+action+" arn:aws:dynamodb:*:*:table/fanfare")
		}
		assert.Subset(t, append(own, operator...), added, duty)
		assert.Contains(t, with, own[2], duty)
	}
	assert.Equal(t, operator, actions("operator", "FANFARE_AUDIT=on"))
}

// fanfare up, like the daemons, sends events of applied work to SQS.
func TestDoctorExaminesTheQueueOfEvents(t *testing.T) {
	workers := daemon.Roles{Fanout: true}
	for name, row := range map[string]struct {
		env    []string
		roles  daemon.Roles
		denied string // the denied operation of SQS
		code   string
		want   []string // the beginnings of the findings that are not ok
	}{
		"none":               {roles: workers, denied: "GetQueueUrl", code: "AccessDenied"},
		"sound":              {env: []string{"FANFARE_EVENTS_QUEUE=others"}, roles: workers},
		"no such queue":      {env: []string{"FANFARE_EVENTS_QUEUE=others"}, roles: workers, denied: "GetQueueUrl", code: "AWS.SimpleQueueService.NonExistentQueue", want: []string{"fault events queue: FANFARE_EVENTS_QUEUE is others: "}},
		"no sends":           {env: []string{"FANFARE_EVENTS_QUEUE=others"}, roles: workers, denied: "SendMessageBatch", code: "AccessDenied", want: []string{"fault calls to the events queue: sqs:SendMessage is refused"}},
		"the api sends none": {env: []string{"FANFARE_EVENTS_QUEUE=others"}, roles: daemon.Roles{API: true}, denied: "GetQueueUrl", code: "AccessDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAmazon(t)
			a.SetFault(func(op string) *sqstest.Fault {
				if op != row.denied {
					return nil
				}
				return &sqstest.Fault{Status: http.StatusForbidden, Code: row.code}
			})
			all := examine(t, row.roles, append(row.env, "FANFARE_DATA_DIR="+t.TempDir())...)
			found := notOK(t, all)
			require.Len(t, found, len(row.want), "%q", found)
			for i, begins := range row.want {
				assert.True(t, strings.HasPrefix(found[i], begins), "%q does not begin with %q", found[i], begins)
			}
			assert.Equal(t, name == "sound", slices.ContainsFunc(all, func(f doctor.Finding) bool { return f.Says == "permitted: sqs:SendMessage" }))
			assert.Zero(t, a.Len("others"), "messages of the examination")
		})
	}
	newAmazon(t)
	assert.Empty(t, notOK(t, examine(t, daemon.Roles{Likes: true}, append(onAWS(), "FANFARE_EVENTS_QUEUE=others")...)))
}

// A table or a queue that cannot be reached may exist. An operator who makes another one elsewhere then has two.
func TestDoctorTellsUnreachableFromAbsent(t *testing.T) {
	for name, row := range map[string]struct {
		url  string
		env  []string
		want []string
	}{
		"nothing listens": {"http://127.0.0.1:1", onAWS(), []string{"table", "queues"}},
		"no such host":    {"http://none.invalid", onAWS(), []string{"table", "queues"}},
		"the queue of events": {
			"http://127.0.0.1:1", []string{"FANFARE_DATA_DIR=" + t.TempDir(), "FANFARE_EVENTS_QUEUE=others"}, []string{"events queue"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			awsAt(t, row.url)
			var faults []string
			for _, f := range examine(t, everyRole(), row.env...) {
				if f.Level != doctor.LevelFault {
					continue
				}
				faults = append(faults, f.Check)
				assert.Contains(t, f.Mend, "let this machine reach it", f.Check)
				assert.NotContains(t, f.Mend, "create", f.Check)
				assert.NotContains(t, f.Mend, "make", f.Check)
			}
			assert.Equal(t, row.want, faults)
		})
	}
	a := newAmazon(t)
	a.SetFault(func(op string) *sqstest.Fault {
		if op != "GetQueueUrl" {
			return nil
		}
		return &sqstest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}
	})
	for _, f := range examine(t, everyRole(), onAWS()...) {
		if strings.HasPrefix(f.Check, "queue ") {
			assert.Contains(t, f.Mend, "allow sqs:GetQueueUrl")
		}
	}
}

// A faulty setting hides no finding that does not need this setting.
func TestDoctorGoesOnAfterAConfigurationFault(t *testing.T) {
	newAmazon(t)
	for bad, want := range map[string]string{
		"FANFARE_LIKE_WINDOW=x": "table ok, queue posts ok", "FANFARE_WORKERS=3": "table ok, queue posts ok", "FANFARE_AUTH=": "table ok, queue posts ok",
		"FANFARE_TABLE=a b": "queue posts ok", "FANFARE_QUEUE_PREFIX=a.b": "table ok", "FANFARE_ENGINE=gcp": "",
	} {
		cfg, err := config.Load(append(onAWS(), bad), config.API) // dev tokens are not allowed on aws
		faults, ok := errors.AsType[*config.Error](err)
		require.True(t, ok, bad)
		var got []string
		configuration := 0
		for _, f := range doctor.Examine(t.Context(), cfg, faults, daemon.Roles{API: true}, time.Now) {
			switch f.Check {
			case "configuration":
				configuration++
			case "table", "queue posts":
				got = append(got, f.Check+" "+string(f.Level))
			}
		}
		assert.Equal(t, want, strings.Join(got, ", "), bad)
		assert.GreaterOrEqual(t, configuration, len(faults.Faults), bad)
	}
}

func TestDoctorWithoutAWSSaysSo(t *testing.T) {
	awsAt(t, "127.0.0.1:4566")
	found := notOK(t, examine(t, everyRole(), onAWS()...))
	require.Len(t, found, 1)
	assert.Contains(t, found[0], "is not a URL")
}

func TestDoctorChecksTheKeysOfTheIssuer(t *testing.T) {
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"keys":[]}`) // the client may have left
	}))
	defer keys.Close()
	dir := t.TempDir()
	found := notOK(t, examine(t, everyRole(), "FANFARE_DATA_DIR="+dir, "FANFARE_AUTH=jwt", "FANFARE_JWKS_URL="+keys.URL))
	require.Len(t, found, 1)
	assert.Contains(t, found[0], "fault keys: key set of "+keys.URL+": it has no sound signing key for RS256, ES256, PS256, PS384, PS512, EdDSA")
	assert.Empty(t, notOK(t, examine(t, daemon.Roles{Likes: true}, "FANFARE_DATA_DIR="+dir, "FANFARE_AUTH=jwt", "FANFARE_JWKS_URL="+keys.URL)), "a worker checks no tokens")
}

func TestDoctorDiscoversTheKeysOfTheIssuer(t *testing.T) {
	publicKey, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		self := "http://" + r.Host
		answer := map[string]any{"issuer": self, "jwks_uri": self + "/keys"}
		if r.URL.Path == "/keys" {
			answer = map[string]any{"keys": []map[string]string{{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": base64.RawURLEncoding.EncodeToString(publicKey)}}}
		}
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(issuer.Close)
	with := func(issuer string) []string {
		return notOK(t, examine(t, everyRole(), "FANFARE_DATA_DIR="+t.TempDir(), "FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER="+issuer, "FANFARE_JWT_AUDIENCE=a"))
	}
	assert.Empty(t, with(issuer.URL))
	found := with(issuer.URL + "/")
	require.Len(t, found, 1)
	assert.Contains(t, found[0], "fault keys: discover the issuer's keys: "+issuer.URL+"/.well-known/openid-configuration is of another issuer")
}

func TestDoctorLooksAtADataDirectoryAndLeavesIt(t *testing.T) {
	write := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	for name, row := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string // a text of the finding
		level   doctor.Level
	}{
		"none yet": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(dir))
		}, "fanfare up makes it", doctor.LevelOK},
		"one at rest": {func(t *testing.T, dir string) {
			t.Helper()
			ctx, stop := context.WithCancel(t.Context())
			cfg, err := config.Load([]string{"FANFARE_DATA_DIR=" + dir, "FANFARE_HTTP_ADDR=127.0.0.1:0", "FANFARE_ADMIN_ADDR=127.0.0.1:0"}, config.API)
			require.NoError(t, err)
			require.NoError(t, daemon.Run(ctx, daemon.Options{Config: cfg, Log: zap.NewNop(), Ready: func(daemon.Addresses) { stop() }}))
		}, "no process has", doctor.LevelOK},
		"one without an archive": {func(t *testing.T, dir string) {
			t.Helper()
			d, err := datadir.Open(dir)
			require.NoError(t, err)
			require.NoError(t, d.Close())
		}, "neither an archive nor a standby has the data", doctor.LevelWarning},
		"one in use": {func(t *testing.T, dir string) {
			t.Helper()
			d, err := datadir.Open(dir)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, d.Close()) })
		}, "a process has", doctor.LevelOK},
		"of a newer version": {func(t *testing.T, dir string) {
			t.Helper()
			write("LOCK", "")(t, dir)
			write("FORMAT", "99")(t, dir)
		}, "format 99", doctor.LevelFault},
		"of a development version": {func(t *testing.T, dir string) {
			t.Helper()
			write("LOCK", "")(t, dir)
			write("FORMAT", "1")(t, dir)
		}, "before v0.1.0", doctor.LevelFault},
		"with a newer store": {func(t *testing.T, dir string) {
			t.Helper()
			write("LOCK", "")(t, dir)
			require.NoError(t, os.Mkdir(filepath.Join(dir, "table"), 0o700))
			write("table/marker.format-version.000001.999", "")(t, dir)
		}, "format 999", doctor.LevelFault},
		"a file": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		}, "not a directory", doctor.LevelFault},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			require.NoError(t, os.Mkdir(dir, 0o700))
			row.prepare(t, dir)
			before, _ := filepath.Glob(dir + "/*") // the pattern is valid
			found := examine(t, everyRole(), "FANFARE_DATA_DIR="+dir)
			after, _ := filepath.Glob(dir + "/*") // the pattern is valid
			assert.Equal(t, before, after)
			notOK(t, found)
			assert.Condition(t, func() bool {
				for _, f := range found {
					if f.Level == row.level && strings.Contains(f.Says, row.want) {
						return true
					}
				}
				return false
			}, "no %s with %q in %+v", row.level, row.want, found)
		})
	}
}

func TestDoctorShowsTheTTLOfHomes(t *testing.T) {
	a := newAmazon(t)
	says := func(env ...string) string {
		t.Helper()
		for _, f := range examine(t, daemon.Roles{API: true}, append(onAWS(), env...)...) {
			if f.Check == "TTL of homes" {
				return string(f.Level) + " " + f.Says
			}
		}
		return ""
	}
	assert.Equal(t, "ok the table has none yet: the first api or fanout stores FANFARE_TIMELINE_TTL, which is 720h0m0s", says())
	soon := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	a.answers["lifetimes"] = fmt.Sprintf(`{"Item":{"PK":{"S":"lifetimes"},"SK":{"S":"info"},"ttls":{"S":"0:2592000000 %d:604800000"}}}`, soon.UnixMilli())
	change := "homes show posts for 720h0m0s, and from " + soon.Format(time.RFC3339) + " on for 168h0m0s, "
	assert.Equal(t, "ok "+change+"by FANFARE_TIMELINE_TTL", says("FANFARE_TIMELINE_TTL=168h"))
	assert.Equal(t, "warning "+change+"and FANFARE_TIMELINE_TTL is 720h0m0s", says())
}
