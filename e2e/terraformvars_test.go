package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// variable is the variable of a module that replaces a parameter. CloudFormation has texts and lists of texts, and
// Terraform has a type for each kind of value.
type variable struct {
	name, kind string
	// low and high bound a number. If zero is true, the number may also be 0.
	low, high string
	zero      bool
	parameter *yaml.Node
}

// The kinds of variables.
const (
	isText   = "string"
	isNumber = "number"
	isBool   = "bool"
	isList   = "list(string)"
	// isSwitch is a bool for the values ENABLED and DISABLED.
	isSwitch = "switch"
	// isRange has the ends of a range, for a text such as 500-10000. null is no range.
	isRange = "object({ min = number, max = number })"
	// isServices has the names of another module, for the name of the other stack. null is no such module.
	isServices = "object({ name = string, cluster = string, api = string, fanout = string, likeagg = string })"
)

// mostUnits is the greatest number of units that the patterns of the ranges accept.
const mostUnits = "9999999"

// ownNames are the variables whose names are not the names of the parameters in snake case.
func ownNames() map[string]string {
	return map[string]string{
		"AlarmTopic": "alarm_topic_arn", "EndpointRouteTables": "endpoint_route_table_ids", "EndpointVpc": "endpoint_vpc_id",
		"EnvironmentFile": "environment_file_arn", "LoadBalancer": "load_balancer_arn", "PublicIp": "assign_public_ip",
		"SecurityGroups": "security_group_ids", "ServicesStack": "services", "Subnets": "subnet_ids", "TargetGroup": "target_group_arn",
	}
}

// wholeNumber matches the description of a text that is a number.
var wholeNumber = regexp.MustCompile(`^must be (0 or )?a whole number from (\d+) to (\d+)$`)

func variableOf(t *testing.T, name string, p *yaml.Node) variable {
	t.Helper()
	v := variable{name: ownNames()[name], kind: isText, parameter: p}
	if v.name == "" {
		v.name = attributeName(name)
	}
	kind, allowed := field(p, "Type").Value, ""
	if values := field(p, "AllowedValues"); values != nil {
		var all []string
		for _, value := range values.Content {
			all = append(all, value.Value)
		}
		allowed = strings.Join(all, " ")
	}
	number := wholeNumber.FindStringSubmatch(v.constraint())
	switch {
	case name == "ServicesStack":
		v.kind = isServices
	case kind == "CommaDelimitedList" || strings.HasPrefix(kind, "List<"):
		v.kind = isList
	case kind == "Number":
		v.kind = isNumber
	case allowed == "true false":
		v.kind = isBool
	case allowed == "ENABLED DISABLED":
		v.kind = isSwitch
	case v.fallback() == "0-0":
		v.kind = isRange
	case number != nil:
		v.kind, v.zero, v.low, v.high = isNumber, number[1] != "", number[2], number[3]
	default:
		require.Truef(t, field(p, "AllowedPattern") == nil || v.constraint() != "", "%s: the pattern has no ConstraintDescription, so its refusal would not say what to do", name)
	}
	return v
}

func (v variable) constraint() string { return v.of("ConstraintDescription") }

func (v variable) fallback() string { return v.of("Default") }

// of returns an attribute of the parameter.
func (v variable) of(key string) string {
	if n := field(v.parameter, key); n != nil {
		return n.Value
	}
	return ""
}

// text returns the value of the parameter as an expression.
func (v variable) text() string {
	switch v.kind {
	case isSwitch:
		return "var." + v.name + ` ? "ENABLED" : "DISABLED"`
	case isServices:
		return "var." + v.name + ".name"
	}
	return "var." + v.name
}

// equals returns the variable's value for a text of the template, as an expression.
func (v variable) equals(text string) string {
	switch {
	case v.kind == isNumber:
		return text
	case v.kind == isRange && text == "0-0" || v.kind == isServices && text == "":
		return "null"
	}
	return quoted(text)
}

// declared returns the type and the default.
func (v variable) declared(t *testing.T) (kind, fallback string) {
	t.Helper()
	kind = v.kind
	if kind == isSwitch {
		kind = isBool
	}
	n := field(v.parameter, "Default")
	switch {
	case n == nil:
	case v.kind == isNumber || v.kind == isBool:
		fallback = n.Value
	case v.kind == isSwitch:
		fallback = fmt.Sprint(n.Value == "ENABLED")
	case v.kind == isRange || v.kind == isServices:
		fallback = "null"
	case v.kind == isList:
		require.Empty(t, n.Value)
		fallback = "[]"
	default:
		fallback = quoted(n.Value)
	}
	return kind, fallback
}

// validations returns the condition of each rule of the variable, and the end of a sentence that begins with its name.
func (v variable) validations() (rules [][2]string) {
	is := "var." + v.name
	if v.kind == isRange {
		must := "must be null, or whole numbers such as { min = 500, max = 10000 }, from 1 to " + mostUnits
		return [][2]string{
			{fmt.Sprintf("%[1]s == null ? true : floor(%[1]s.min) == %[1]s.min && floor(%[1]s.max) == %[1]s.max", is), must},
			{fmt.Sprintf("%[1]s == null ? true : 1 <= %[1]s.min && %[1]s.min <= %[1]s.max && %[1]s.max <= %[2]s", is, mostUnits), must},
		}
	}
	if v.high != "" {
		within := fmt.Sprintf("%[1]s <= %[2]s && %[2]s <= %[3]s", v.low, is, v.high)
		if v.zero {
			within = fmt.Sprintf("(%s == 0 || %s)", is, within)
		}
		return [][2]string{{fmt.Sprintf("floor(%[1]s) == %[1]s && %[2]s", is, within), v.constraint()}}
	}
	if least := v.of("MinValue"); least != "" {
		rules = append(rules, [2]string{is + " >= " + least, "must be " + least + " or more"})
	}
	if pattern := v.of("AllowedPattern"); pattern != "" && v.kind == isText {
		rules = append(rules, [2]string{"can(regex(" + quoted("^(?:"+pattern+")$") + ", " + is + "))", v.constraint()})
	}
	if values := field(v.parameter, "AllowedValues"); values != nil && v.kind == isText {
		var all, written []string
		for _, value := range values.Content {
			all, written = append(all, quoted(value.Value)), append(written, value.Value)
		}
		last := len(written) - 1
		rules = append(rules, [2]string{"contains([" + strings.Join(all, ", ") + "], " + is + ")", "must be " + strings.Join(written[:last], ", ") + " or " + written[last]})
	}
	return rules
}

// otherModule matches the name of a template.
var otherModule = regexp.MustCompile(`(the stack of )?\b(data|services|alarms)\.yaml`)

// word matches a word that may be a name. A name without a small letter before a large one may be a word of the text.
var word = regexp.MustCompile(`\b[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]*\b`)

// words returns a text of the template with the names of the modules, their variables and their resources.
func (m *module) words(text string) string {
	text = otherModule.ReplaceAllString(text, "the module $2")
	return word.ReplaceAllStringFunc(text, func(name string) string {
		if v, ok := m.parameters[name]; ok {
			return v.name
		}
		if m.types[name] != "" {
			return attributeName(name)
		}
		return name
	})
}

// variables writes the parameters, and the variables that replace pseudo parameters.
func (m *module) variables() string {
	var b strings.Builder
	descriptions := map[string]string{
		"AWS::Region": "Region of the provider.", "AWS::AccountId": "Number of the account.",
		"AWS::Partition": "Partition of the region.", "AWS::StackName": "Begins the names of the module's resources.",
	}
	for _, name := range sortedKeys(m.pseudo) {
		writeLine(&b, "variable %q {\ntype = string\ndescription = %q", pseudoParameters()[name], descriptions[name])
		if name == "AWS::Partition" {
			writeLine(&b, "default = \"aws\"")
		}
		writeLine(&b, "}\n")
	}
	for name := range pairs(m.sections["Parameters"]) {
		m.variable(&b, m.parameters[name.Value])
	}
	return b.String()
}

func (m *module) variable(b *strings.Builder, v variable) {
	kind, fallback := v.declared(m.t)
	description := m.words(v.of("Description"))
	switch v.kind {
	case isServices:
		description = "The output exports of the module services. null on Kubernetes, whose daemons have no alarms here."
	case isSwitch:
		description = strings.Replace(description, "ENABLED", "true", 1)
	}
	writeLine(b, "variable %q {\ntype = %s\ndescription = %s", v.name, kind, quoted(strings.TrimSuffix(description, ".")+"."))
	if fallback != "" {
		writeLine(b, "default = %s", fallback)
	}
	for _, rule := range v.validations() {
		writeLine(b, "validation {\ncondition = %s\nerror_message = %s\n}", rule[0], quoted(v.name+" "+strings.TrimSuffix(m.words(rule[1]), ".")+"."))
	}
	writeLine(b, "}\n")
}
