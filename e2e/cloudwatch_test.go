package e2e

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// series has the values of metrics minute by minute, by the names that metricName returns. NaN is a
// minute without data.
type series map[string][]float64

// metricName returns a name for a metric and its statistic. A dimension is a pair of name and value, in
// the form of CloudWatch's console.
func metricName(namespace, metric, stat string, dimensions ...string) string {
	return strings.Join(append([]string{namespace, metric, stat}, slices.Sorted(slices.Values(dimensions))...), " ")
}

// alarm is an alarm of alarms.yaml.
type alarm struct {
	name, description string
	// metrics has the name of each metric, by the metric's id in value.
	metrics map[string]string
	value   ast.Expr
	// The alarm fires if least or more of its newest periods minutes breach.
	least, periods int
	breaches       func(value float64) bool
	// missing is the treatment of minutes without a value: breaching, notBreaching or ignore.
	missing string
}

// alarms returns all alarms of alarms.yaml.
func alarms(t *testing.T, parameters map[string]string) map[string]alarm {
	t.Helper()
	all := map[string]alarm{}
	for name, resource := range stack(t, "alarms.yaml", parameters) {
		if at(t, resource, "Type") == "AWS::CloudWatch::Alarm" {
			all[name] = newAlarm(t, name, at(t, resource, "Properties").(map[string]any))
		}
	}
	return all
}

func newAlarm(t *testing.T, name string, p map[string]any) alarm {
	t.Helper()
	number := func(v any) float64 {
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		require.NoError(t, err, name)
		return f
	}
	a := alarm{name: name, description: fmt.Sprint(p["AlarmDescription"]), metrics: map[string]string{}, missing: fmt.Sprint(p["TreatMissingData"])}
	a.least, a.periods = int(number(p["DatapointsToAlarm"])), int(number(p["EvaluationPeriods"]))
	threshold := number(p["Threshold"])
	switch p["ComparisonOperator"] {
	case "GreaterThanThreshold":
		a.breaches = func(v float64) bool { return v > threshold }
	case "LessThanThreshold":
		a.breaches = func(v float64) bool { return v < threshold }
	default:
		require.Fail(t, "the tests do not know this comparison", "%s: %v", name, p["ComparisonOperator"])
	}
	expression := "plain"
	if queries, ok := p["Metrics"].([]any); ok {
		require.LessOrEqual(t, len(queries), 10, "%s: CloudWatch takes ten", name)
		for _, query := range queries {
			if text, ok := query.(map[string]any)["Expression"]; ok {
				expression = fmt.Sprint(text)
				continue
			}
			require.Equal(t, "60", at(t, query, "MetricStat", "Period"), name)
			stat := at(t, query, "MetricStat").(map[string]any)
			a.metrics[fmt.Sprint(at(t, query, "Id"))] = nameOf(t, stat["Metric"].(map[string]any), fmt.Sprint(stat["Stat"]))
		}
	} else {
		require.Equal(t, "60", p["Period"], name)
		stat, _ := p["Statistic"].(string)
		percentile, _ := p["ExtendedStatistic"].(string)
		a.metrics[expression] = nameOf(t, p, cmp.Or(stat, percentile))
	}
	for _, metric := range a.metrics {
		if strings.HasPrefix(metric, "AWS/DynamoDB ") { // CloudWatch has this rule for alarms in the namespace AWS/DynamoDB
			a.missing = "ignore"
		}
	}
	// Go's grammar covers the metric math of the alarms, except for lists in brackets.
	var err error
	a.value, err = parser.ParseExpr(strings.NewReplacer("[", "", "]", "").Replace(expression))
	require.NoError(t, err, "%s: %s", name, expression)
	return a
}

func nameOf(t *testing.T, metric map[string]any, stat string) string {
	t.Helper()
	var dimensions []string
	list, _ := metric["Dimensions"].([]any) // a metric of the log has no dimensions
	for _, d := range list {
		dimensions = append(dimensions, fmt.Sprint(at(t, d, "Name"), "=", at(t, d, "Value")))
	}
	return metricName(fmt.Sprint(metric["Namespace"]), fmt.Sprint(metric["MetricName"]), stat, dimensions...)
}

// view is the part of the metrics that CloudWatch knows at some time: all values up to the last minute.
type view struct {
	series
	last int
}

// eval returns the value of an expression of the alarm for one minute of s, or NaN if the expression has
// no value.
func (a alarm) eval(e ast.Expr, s view, minute int) float64 {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return a.eval(e.X, s, minute)
	case *ast.BasicLit:
		n, err := strconv.ParseFloat(e.Value, 64)
		if err != nil {
			panic(err)
		}
		return n
	case *ast.Ident:
		name, ok := a.metrics[e.Name]
		if !ok {
			panic(a.name + " has no metric " + e.Name)
		}
		if values := s.series[name]; minute >= 0 && minute < len(values) && minute <= s.last {
			return values[minute]
		}
		return math.NaN()
	case *ast.BinaryExpr:
		return operate(e.Op, a.eval(e.X, s, minute), a.eval(e.Y, s, minute))
	case *ast.CallExpr:
		var arguments []float64
		for _, argument := range e.Args {
			arguments = append(arguments, a.eval(argument, s, minute))
		}
		return call(e.Fun.(*ast.Ident).Name, arguments)
	}
	panic(fmt.Sprintf("%s: the tests do not know %T", a.name, e))
}

// operate applies an operator of metric math. The result is NaN for a minute without data, and for a
// division by 0.
func operate(op token.Token, x, y float64) float64 {
	truth := map[bool]float64{true: 1}
	switch {
	case math.IsNaN(x) || math.IsNaN(y) || op == token.QUO && y == 0:
		return math.NaN()
	case op == token.ADD:
		return x + y
	case op == token.SUB:
		return x - y
	case op == token.MUL:
		return x * y
	case op == token.QUO:
		return x / y
	case op == token.LSS:
		return truth[x < y]
	case op == token.GTR:
		return truth[x > y]
	}
	panic("the tests do not know the operator " + op.String())
}

// call evaluates a function of metric math.
func call(function string, arguments []float64) float64 {
	switch function {
	case "FILL":
		if math.IsNaN(arguments[0]) {
			return arguments[1]
		}
		return arguments[0]
	case "IF":
		switch condition := arguments[0]; {
		case math.IsNaN(condition):
			return condition
		case condition != 0:
			return arguments[1]
		default:
			return arguments[2]
		}
	case "MAX":
		return slices.Max(arguments)
	}
	panic("the tests do not know the function " + function)
}

// hasFill reports whether the alarm gives a value to minutes without data.
func (a alarm) hasFill() bool {
	found := false
	ast.Inspect(a.value, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "FILL"
		return true
	})
	return found
}

// watch returns the minutes, counted from the first minute, in which the alarm is on. A metric becomes
// known late minutes after the end of its minute.
//
// An alarm evaluates its newest minutes. If some of these minutes have no value, CloudWatch first takes
// older minutes from a range that is a little longer. It treats minutes as missing only if the range has
// too few values.
func (a alarm) watch(s series, minutes, late int) []int {
	const longer = 2
	var on []int
	ringing := false
	for now := a.periods + longer; now < minutes; now++ {
		breaching, found := 0, 0
		known := view{s, now - late}
		for back := 0; back < a.periods+longer && found < a.periods; back++ {
			value := a.eval(a.value, known, now-back)
			if math.IsNaN(value) {
				continue
			}
			found++
			if a.breaches(value) {
				breaching++
			}
		}
		absent := a.periods - found
		switch {
		case a.missing == "breaching":
			ringing = breaching+absent >= a.least
		case a.missing == "notBreaching" || found >= a.periods:
			ringing = breaching >= a.least
		}
		if ringing {
			on = append(on, now)
		}
	}
	return on
}
