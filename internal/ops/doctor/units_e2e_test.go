//go:build e2e

package doctor

import (
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	metrictypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/awsclient"
	"fanfare/internal/table/dynamo"
)

// LocalStack's CloudWatch parses a query for each minute, which takes seconds for a day, so the test asks about an hour.
// LocalStack also counts units of the index as units of the table, so the index has none.
func TestCloudWatchTellsTheUnits(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("AWS_ENDPOINT_URL"), "AWS_ENDPOINT_URL is not set: run this with scripts/with-emulators.sh")
	cfg, err := awsclient.Load(t.Context())
	require.NoError(t, err)
	client := cloudwatch.NewFromConfig(cfg)
	end := time.Now().Truncate(time.Hour)
	d := dynamo.Description{Name: "units-" + rand.Text(), Capacity: dynamo.Capacity{Billing: dynamo.Provisioned}}
	for _, units := range []struct {
		metric string
		before time.Duration
		value  float64
	}{
		{"ConsumedWriteCapacityUnits", 7 * time.Minute, 2400},
		{"ConsumedWriteCapacityUnits", 7 * time.Minute, 60},
		{"ConsumedWriteCapacityUnits", 9 * time.Minute, 600},
		{"ConsumedWriteCapacityUnits", 2 * time.Hour, 60_000}, // before the start
		{"ConsumedReadCapacityUnits", 3 * time.Minute, 120},
		{"ProvisionedWriteCapacityUnits", 10 * time.Minute, 100},
	} {
		of := query("", units.metric, d.Name, false)
		_, err := client.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{Namespace: of.MetricStat.Metric.Namespace, MetricData: []metrictypes.MetricDatum{
			{MetricName: &units.metric, Dimensions: of.MetricStat.Metric.Dimensions, Timestamp: aws.Time(end.Add(-units.before)), Value: &units.value},
		}})
		require.NoError(t, err)
	}
	spent, err := spent(t.Context(), client, d, end.Add(-time.Hour), end)
	require.NoError(t, err)
	want := make([]dayOf, len(dynamo.Dimensions(d.Name)))
	want[0] = dayOf{peak: 2460. / 60, consumed: 3060, provisioned: 100 * 300}
	want[1] = dayOf{peak: 120. / 60}
	assert.Equal(t, want, spent)
}
