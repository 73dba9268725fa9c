package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	metrictypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"fanfare/internal/awsclient"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

const (
	// fullShare is the share of a bound that the busiest minute may use without a warning.
	fullShare = 0.8
	// indexShare is the reciprocal of the minimum share of the table's write units that the index needs. The
	// index gets one write for each post and like, and no write for a delivery.
	indexShare = 20
	// consumedPeriod and provisionedPeriod are the seconds that one value of CloudWatch covers.
	consumedPeriod, provisionedPeriod = 60, 300
)

// units examines the capacity of the table, and how much of its bounds was used in the last day.
func (e *examination) units(ctx context.Context, d dynamo.Description) {
	e.ok("capacity", "%s", d.Text())
	cfg, err := awsclient.Load(ctx)
	if err != nil {
		e.note(LevelFault, "AWS", "see docs/CONFIGURATION.md, Variables of AWS and Go", "%w", err)
		return
	}
	// The bound of a dimension with a policy is the maximum to which the policy scales.
	bounds := map[string]int64{}
	for _, dimension := range dynamo.Dimensions(d.Name) {
		bounds[dimension.Name] = d.Bound(dimension)
	}
	if d.Billing == dynamo.Provisioned {
		e.scaled(ctx, applicationautoscaling.NewFromConfig(cfg), d, bounds)
	}
	all := dynamo.Dimensions(d.Name)
	if of, index := d.Bound(all[0]), d.Bound(all[2]); index > 0 && index*indexShare < of {
		e.note(LevelWarning, "capacity", fmt.Sprintf("give %s %d write units or more", table.IndexName, (of+indexShare-1)/indexShare),
			"%s has %d write units, less than a twentieth of the %d of the table, and a full index refuses writes of the table", table.IndexName, index, of)
	}
	for _, bound := range bounds {
		if bound > 0 {
			e.used(ctx, cloudwatch.NewFromConfig(cfg), d, bounds)
			return
		}
	}
}

// scaled examines the policies that scale provisioned units. For each dimension with a policy,
// scaled sets the bound to the maximum of the policy.
func (e *examination) scaled(ctx context.Context, client *applicationautoscaling.Client, d dynamo.Description, bounds map[string]int64) {
	const check = "scaling"
	dimensions := dynamo.Dimensions(d.Name)
	ranges, action, err := scaledRanges(ctx, client, dimensions[0].Resource, dimensions[2].Resource)
	if err != nil {
		e.note(LevelWarning, check, mendCall(err, action), "the capacity is provisioned, and its scaling could not be checked: %w", err)
		return
	}
	var still, scales []string
	for _, dimension := range dimensions {
		if within, ok := ranges[dimension.Name]; ok {
			bounds[dimension.Name] = within.Most
			scales = append(scales, fmt.Sprintf("%s from %d to %d", dimension.Of, within.Least, within.Most))
		} else {
			still = append(still, dimension.Of)
		}
	}
	if len(scales) > 0 {
		e.ok(check, "policies scale the %s", strings.Join(scales, ", the "))
	}
	if len(still) > 0 {
		e.note(LevelWarning, check, "deploy data.yaml with BillingMode=PROVISIONED, or run the commands that fanfare table create --billing provisioned prints",
			"the capacity is provisioned, and nothing scales out the %s, so a peak above it is refused", strings.Join(still, ", the "))
	}
}

// scaledRanges returns the ranges of the dimensions that policies scale out, by the name of the
// dimension. If a call fails, scaledRanges also returns its action.
func scaledRanges(ctx context.Context, client *applicationautoscaling.Client, resources ...string) (map[string]dynamo.Range, string, error) {
	const service = scalingtypes.ServiceNamespaceDynamodb
	targets, err := client.DescribeScalableTargets(ctx, &applicationautoscaling.DescribeScalableTargetsInput{ServiceNamespace: service, ResourceIds: resources})
	if err != nil {
		return nil, "application-autoscaling:DescribeScalableTargets", err //nolint:wrapcheck // scaled adds the check
	}
	ranges := map[string]dynamo.Range{}
	for _, resource := range resources {
		policies, err := client.DescribeScalingPolicies(ctx, &applicationautoscaling.DescribeScalingPoliciesInput{ServiceNamespace: service, ResourceId: &resource})
		if err != nil {
			return nil, "application-autoscaling:DescribeScalingPolicies", err //nolint:wrapcheck // scaled adds the check
		}
		for _, policy := range policies.ScalingPolicies {
			for _, target := range targets.ScalableTargets {
				suspended := target.SuspendedState != nil && aws.ToBool(target.SuspendedState.DynamicScalingOutSuspended)
				if target.ScalableDimension == policy.ScalableDimension && !suspended {
					ranges[string(target.ScalableDimension)] = dynamo.Range{Least: int64(aws.ToInt32(target.MinCapacity)), Most: int64(aws.ToInt32(target.MaxCapacity))}
				}
			}
		}
	}
	return ranges, "", nil
}

// mendCall returns the remedy for a call that failed.
func mendCall(err error, action string) string {
	if awsclient.Refused(err) {
		return "allow " + action + " to whoever runs this"
	}
	service, _, _ := strings.Cut(action, ":")
	return "let this machine reach " + service + " of AWS, or run it elsewhere"
}

// used compares the units that were used in the last day with the bounds.
func (e *examination) used(ctx context.Context, client *cloudwatch.Client, d dynamo.Description, bounds map[string]int64) {
	const check = "use of the last day"
	days, err := spent(ctx, client, d, e.now().Add(-24*time.Hour), e.now())
	if err != nil {
		e.note(LevelWarning, check, mendCall(err, "cloudwatch:GetMetricData"), "it could not be checked: %w", err)
		return
	}
	var peaks []string
	for i, dimension := range dynamo.Dimensions(d.Name) {
		bound, day := bounds[dimension.Name], days[i]
		if bound == 0 {
			continue
		}
		share := day.peak / float64(bound)
		text := fmt.Sprintf("the busiest minute of the %s took %.0f %% of %d units a second", dimension.Of, 100*share, bound)
		if day.provisioned > 0 {
			text += fmt.Sprintf(", and the day %.0f %% of the provisioned ones", 100*day.consumed/day.provisioned)
		}
		if share > fullShare {
			e.note(LevelWarning, check, "see docs/OPERATIONS.md, Table throttles: raise this ceiling, or find the flow that spends", "%s", text)
			continue
		}
		peaks = append(peaks, text)
	}
	if len(peaks) > 0 {
		e.ok(check, "%s", strings.Join(peaks, "; "))
	}
}

// dayOf has the units of a dimension in the last day.
type dayOf struct {
	// peak is the average of the busiest minute, in units a second.
	peak float64
	// consumed and provisioned are the units of the day, each in units times seconds. consumed omits
	// times without a value of provisioned units.
	consumed, provisioned float64
}

// spent returns the units of each dimension in the whole periods from start to end, from CloudWatch.
func spent(ctx context.Context, client *cloudwatch.Client, d dynamo.Description, start, end time.Time) ([]dayOf, error) {
	const whole = provisionedPeriod * time.Second
	in := &cloudwatch.GetMetricDataInput{StartTime: aws.Time(start.Truncate(whole)), EndTime: aws.Time(end.Truncate(whole))}
	dimensions := dynamo.Dimensions(d.Name)
	// series has the values of each query, by their time in Unix seconds.
	series := map[string]map[int64]float64{}
	for i, dimension := range dimensions {
		kind := map[bool]string{true: "WriteCapacityUnits", false: "ReadCapacityUnits"}[dimension.Write]
		in.MetricDataQueries = append(in.MetricDataQueries, query(consumedID(i), "Consumed"+kind, d.Name, dimension.Index))
		if d.Billing == dynamo.Provisioned {
			in.MetricDataQueries = append(in.MetricDataQueries, query(provisionedID(i), "Provisioned"+kind, d.Name, dimension.Index))
		}
	}
	// The SDK's paginator takes the client as an interface, so the linker would keep all calls of CloudWatch.
	for more := true; more; {
		page, err := client.GetMetricData(ctx, in)
		if err != nil {
			return nil, err //nolint:wrapcheck // used adds the check
		}
		for _, result := range page.MetricDataResults {
			id := aws.ToString(result.Id)
			if series[id] == nil {
				series[id] = map[int64]float64{}
			}
			for at := range min(len(result.Timestamps), len(result.Values)) {
				series[id][result.Timestamps[at].Unix()] = result.Values[at]
			}
		}
		in.NextToken, more = page.NextToken, page.NextToken != nil
	}
	days := make([]dayOf, len(dimensions))
	for i := range days {
		days[i] = sum(series[consumedID(i)], series[provisionedID(i)])
	}
	return days, nil
}

func consumedID(dimension int) string    { return fmt.Sprintf("c%d", dimension) }
func provisionedID(dimension int) string { return fmt.Sprintf("p%d", dimension) }

// sum returns the units of one dimension from its two series.
func sum(consumed, provisioned map[int64]float64) (day dayOf) {
	for at, units := range consumed {
		day.peak = max(day.peak, units/consumedPeriod)
		if _, ok := provisioned[at-at%provisionedPeriod]; ok {
			day.consumed += units
		}
	}
	for _, units := range provisioned {
		day.provisioned += units * provisionedPeriod
	}
	return day
}

// query returns the query for one metric of the table or of its index.
func query(id, metric, tableName string, index bool) metrictypes.MetricDataQuery {
	of := []metrictypes.Dimension{{Name: aws.String("TableName"), Value: &tableName}}
	if index {
		of = append(of, metrictypes.Dimension{Name: aws.String("GlobalSecondaryIndexName"), Value: aws.String(table.IndexName)})
	}
	period, stat := int32(consumedPeriod), metrictypes.StatisticSum
	if strings.HasPrefix(metric, "Provisioned") {
		period, stat = provisionedPeriod, metrictypes.StatisticAverage
	}
	return metrictypes.MetricDataQuery{Id: &id, MetricStat: &metrictypes.MetricStat{
		Metric: &metrictypes.Metric{Namespace: aws.String("AWS/DynamoDB"), MetricName: &metric, Dimensions: of},
		Period: &period, Stat: aws.String(string(stat)),
	}}
}
