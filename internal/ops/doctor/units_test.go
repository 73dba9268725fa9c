package doctor_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/ops/doctor"
)

// series has the values of CloudWatch metrics, one value for each period. The first value is from an hour
// before the examination.
type series map[string][]float64

// cloudWatch returns a handler that answers with series by the ids of their queries. An id is c for
// consumed units or p for provisioned units, and the number of the dimension: 0 for writes and 1 for reads
// of the table, 2 for writes and 3 for reads of the index.
func cloudWatch(t *testing.T, now time.Time, of series) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, _ *http.Request) {
		results := cbor.List{}
		for id, values := range of {
			numbers, times := cbor.List{}, cbor.List{}
			period := map[byte]time.Duration{'c': time.Minute, 'p': 5 * time.Minute}[id[0]]
			for i, value := range values {
				numbers = append(numbers, cbor.Float64(value))
				times = append(times, &cbor.Tag{ID: 1, Value: cbor.Float64(now.Add(time.Duration(i)*period - time.Hour).Unix())})
			}
			results = append(results, cbor.Map{"Id": cbor.String(id), "Values": numbers, "Timestamps": times})
		}
		respond(w, http.StatusOK, cbor.Map{"MetricDataResults": results})
	}
}

func respond(w http.ResponseWriter, status int, body cbor.Map) {
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	w.Header().Set("Content-Type", "application/cbor")
	w.WriteHeader(status)
	_, _ = w.Write(cbor.Encode(body)) // the client may have left
}

// described returns DynamoDB's description of a table, with the given parts about the units
// of the table and of the index.
func described(table, index string) string {
	text := strings.Replace(fits, `"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST"},`, table, 1)
	return strings.Replace(text, `{"IndexName":"GSI1",`, `{"IndexName":"GSI1",`+index, 1)
}

func capped(write, read int) string {
	return fmt.Sprintf(`"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST"},"OnDemandThroughput":{"MaxWriteRequestUnits":%d,"MaxReadRequestUnits":%d},`, write, read)
}

func provisioned(write, read int) string {
	return fmt.Sprintf(`"ProvisionedThroughput":{"WriteCapacityUnits":%d,"ReadCapacityUnits":%d},`, write, read)
}

// scalables returns an answer that has part for each of the four dimensions except without.
func scalables(list, without, part string) string {
	var all []string
	for _, of := range []string{"table:Write", "table:Read", "index:Write", "index:Read"} {
		if of != without {
			all = append(all, fmt.Sprintf(`{"ServiceNamespace":"dynamodb","ScalableDimension":"dynamodb:%sCapacityUnits",%s}`, of, part))
		}
	}
	return `{"` + list + `":[` + strings.Join(all, ",") + `]}`
}

// scaling returns the answer about scalable targets and the answer about policies. Each answer leaves out
// one dimension. Scaling out is suspended if suspended is true.
func scaling(withoutTarget, withoutPolicy string, suspended bool) [2]string {
	return [2]string{
		scalables("ScalableTargets", withoutTarget, fmt.Sprintf(`"MinCapacity":10,"MaxCapacity":5000,"SuspendedState":{"DynamicScalingOutSuspended":%t}`, suspended)),
		scalables("ScalingPolicies", withoutPolicy, `"PolicyName":"p"`),
	}
}

func TestDoctorExaminesTheCapacity(t *testing.T) {
	now := time.Now().Truncate(time.Hour)
	scaled := described(provisioned(500, 1000), provisioned(25, 20))
	for name, row := range map[string]struct {
		table   string
		scaling [2]string
		metrics series // a nil series denies the call
		ok      []string
		want    []string // the beginnings of the findings that are not ok
		mend    string   // a part of the first finding's remedy
	}{
		"on demand": {table: fits, ok: []string{"on demand, without a ceiling"}},
		"ceilings": {
			table: described(capped(100, 300), capped(100, 300)), metrics: series{"c0": {60, 4800, 60}, "c1": {1800}, "c2": {0}},
			ok: []string{
				"on demand: at most 100 write and 300 read units a second, and 100 and 300 of the index",
				"the busiest minute of the writes of the table took 80 % of 100 units a second; the busiest minute of the reads of the table took 10 % of 300 units a second; the busiest minute of the writes of the index took 0 % of 100 units a second; the busiest minute of the reads of the index took 0 % of 300 units a second",
			},
		},
		"a ceiling of writes that is used up": {
			table: described(capped(100, -1), capped(100, -1)), metrics: series{"c0": {60, 4860, 60}, "c1": {1e9}, "c2": {6000}},
			ok: []string{"on demand: at most 100 write and any read units a second"},
			want: []string{
				"warning use of the last day: the busiest minute of the writes of the table took 81 % of 100 units a second",
				"warning use of the last day: the busiest minute of the writes of the index took 100 % of 100 units a second",
			},
			mend: "raise this ceiling",
		},
		"a ceiling that nobody may see used": {
			table: described(capped(100, 300), capped(100, 300)), want: []string{"warning use of the last day: it could not be checked: "}, mend: "allow cloudwatch:GetMetricData",
		},
		"a low ceiling of the index": {
			table: described(capped(1001, 300), capped(50, 300)), metrics: series{},
			want: []string{"warning capacity: GSI1 has 50 write units, less than a twentieth of the 1001 of the table"}, mend: "give GSI1 51 write units or more",
		},
		"provisioned": {
			table: scaled, scaling: scaling("", "", false), metrics: series{"c0": {60, 60, 60, 60, 60, 30000, 30000, 30000, 30000, 30000, 9999}, "p0": {1, 1000}, "c1": {60000}, "p1": {800}},
			ok: []string{
				"provisioned: 500 write and 1000 read units a second, and 25 and 20 of the index",
				"policies scale the writes of the table from 10 to 5000, the reads of the table from 10 to 5000, the writes of the index",
				"the busiest minute of the writes of the table took 10 % of 5000 units a second, and the day 50 % of the provisioned ones; the busiest minute of the reads of the table took 20 % of 5000 units a second, and the day 25 % of",
			},
		},
		"provisioned without scaling": {
			table: scaled, scaling: [2]string{"{}", "{}"}, metrics: series{"c1": {48600}},
			want: []string{
				"warning scaling: the capacity is provisioned, and nothing scales out the writes of the table, the reads of the table, the writes of the index, the reads of the index, so",
				"warning use of the last day: the busiest minute of the reads of the table took 81 % of 1000 units a second",
			},
			mend: "fanfare table create --billing provisioned",
		},
		"reads of the index without scaling": {
			table: scaled, scaling: scaling("index:Read", "", false), metrics: series{}, want: []string{"warning scaling: the capacity is provisioned, and nothing scales out the reads of the index, so"},
		},
		"scaling that is suspended": {
			table: scaled, scaling: scaling("", "", true), metrics: series{}, want: []string{"warning scaling: the capacity is provisioned, and nothing scales out the writes of the table, the reads"},
		},
		"a target without a policy": {
			table: scaled, scaling: scaling("", "table:Write", false), metrics: series{}, want: []string{"warning scaling: the capacity is provisioned, and nothing scales out the writes of the table, so"},
		},
		"policies that nobody may see": {
			table: scaled, scaling: [2]string{"{}", refusal("AccessDeniedException")}, metrics: series{},
			want: []string{"warning scaling: the capacity is provisioned, and its scaling could not be checked: "}, mend: "allow application-autoscaling:DescribeScalingPolicies",
		},
		"scaling that nobody may see": {
			table: scaled, scaling: [2]string{refusal("AccessDeniedException"), "{}"}, metrics: series{},
			want: []string{"warning scaling: the capacity is provisioned, and its scaling could not be checked: "}, mend: "allow application-autoscaling:DescribeScalableTargets",
		},
		"a small index": {
			table: described(provisioned(500, 1000), provisioned(24, 20)), scaling: scaling("", "", false), metrics: series{},
			want: []string{"warning capacity: GSI1 has 24 write units, less than a twentieth of the 500 of the table"}, mend: "give GSI1 25 write units or more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAmazon(t)
			a.skew = time.Until(now)
			a.answers["DescribeTable"], a.answers["DescribeScalableTargets"], a.answers["DescribeScalingPolicies"] = row.table, row.scaling[0], row.scaling[1]
			a.metrics = cloudWatch(t, now, row.metrics)
			if row.metrics == nil {
				a.metrics = func(w http.ResponseWriter, _ *http.Request) {
					respond(w, http.StatusForbidden, cbor.Map{"__type": cbor.String("AccessDenied"), "message": cbor.String("m")})
				}
			}
			cfg, err := config.Load(onAWS(), config.Tool)
			require.NoError(t, err)
			all := doctor.Examine(t.Context(), cfg, nil, daemon.Roles{}, func() time.Time { return now })
			found := notOK(t, all)
			require.Len(t, found, len(row.want), "%q", found)
			for i, begins := range row.want {
				assert.True(t, strings.HasPrefix(found[i], begins), "%q does not begin with %q", found[i], begins)
			}
			var fine, mends []string
			for _, f := range all {
				if f.Level == doctor.LevelOK {
					fine = append(fine, f.Says)
				} else {
					mends = append(mends, f.Mend)
				}
			}
			for _, text := range row.ok {
				assert.Contains(t, strings.Join(fine, "\n"), text)
			}
			if row.mend != "" {
				assert.Contains(t, mends[0], row.mend)
			}
		})
	}
}
