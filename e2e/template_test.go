package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// template is a template of CloudFormation with values for its parameters. It evaluates the functions
// that the templates use as CloudFormation does. A reference to a resource becomes the resource's name,
// and a reference to another stack becomes the name of the export.
type template struct {
	sections map[string]any
	// values has texts, or lists of texts, for parameters and pseudo parameters.
	values map[string]any
}

// noValue is AWS::NoValue: a property with this value does not exist.
type noValue struct{}

// read parses a template and gives values to its parameters. The given values override the defaults of
// the template.
func read(t *testing.T, file string, parameters map[string]string) template {
	t.Helper()
	text, err := os.ReadFile("../deploy/cloudformation/" + file)
	require.NoError(t, err)
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &root))
	s := template{sections: longForm(root.Content[0]).(map[string]any), values: map[string]any{
		"AWS::Partition": "aws", "AWS::Region": "eu-central-1", "AWS::AccountId": "123456789012", "AWS::StackName": "test", "AWS::NoValue": noValue{},
	}}
	for name, p := range s.section("Parameters") {
		value, given := parameters[name]
		if fallback, ok := p.(map[string]any)["Default"]; ok && !given {
			value, given = fmt.Sprint(fallback), true
		}
		if given {
			s.values[name] = value
			if kind := fmt.Sprint(p.(map[string]any)["Type"]); kind == "CommaDelimitedList" || strings.HasPrefix(kind, "List<") {
				s.values[name] = listOf(value)
			}
		}
	}
	for name := range parameters {
		require.Contains(t, s.section("Parameters"), name)
	}
	return s
}

// listOf splits the value of a list as CloudFormation does: it drops the spaces around each part.
func listOf(value string) []any {
	var list []any
	for part := range strings.SplitSeq(value, ",") {
		list = append(list, strings.TrimSpace(part))
	}
	return list
}

// longForm decodes a node. It turns !Sub x into {"Fn::Sub": x}, and all scalars into texts.
func longForm(n *yaml.Node) any {
	var v any
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = longForm(n.Content[i+1])
		}
		v = m
	case yaml.SequenceNode:
		l := []any{}
		for _, c := range n.Content {
			l = append(l, longForm(c))
		}
		v = l
	default:
		v = n.Value
	}
	short, ok := strings.CutPrefix(n.Tag, "!")
	switch {
	case !ok || strings.HasPrefix(short, "!"): // !!str and similar tags belong to YAML
		return v
	case short == "Ref" || short == "Condition":
		return map[string]any{short: v}
	default:
		return map[string]any{"Fn::" + short: v}
	}
}

func (s template) section(name string) map[string]any {
	section, _ := s.sections[name].(map[string]any) // a template may lack the section
	return section
}

// resources returns the resources whose conditions hold, with their functions resolved.
func (s template) resources() map[string]any {
	all := map[string]any{}
	for name, r := range s.section("Resources") {
		if condition, ok := r.(map[string]any)["Condition"]; !ok || s.holds(condition) {
			all[name] = s.resolve(r)
		}
	}
	return all
}

// holds evaluates the condition with this name.
func (s template) holds(condition any) bool {
	return s.resolve(s.section("Conditions")[fmt.Sprint(condition)]) == true
}

// resolve returns a value in which all functions are evaluated.
func (s template) resolve(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 1 {
			for name, argument := range v {
				if name == "Ref" || strings.HasPrefix(name, "Fn::") {
					return s.call(name, argument)
				}
				if of, ok := argument.(string); ok && name == "Condition" {
					return s.holds(of)
				}
			}
		}
		m := map[string]any{}
		for key, part := range v {
			if part = s.resolve(part); part != (noValue{}) {
				m[key] = part
			}
		}
		return m
	case []any:
		l := []any{}
		for _, part := range v {
			if part = s.resolve(part); part != (noValue{}) {
				l = append(l, part)
			}
		}
		return l
	}
	return v
}

// call evaluates a function.
func (s template) call(name string, argument any) any {
	if name == "Fn::If" { // only the selected branch needs a value
		parts := argument.([]any)
		if s.holds(parts[0]) {
			return s.resolve(parts[1])
		}
		return s.resolve(parts[2])
	}
	argument = s.resolve(argument)
	list, _ := argument.([]any)
	switch name {
	case "Ref":
		if v, ok := s.values[fmt.Sprint(argument)]; ok {
			return v
		}
		return argument
	case "Fn::Sub":
		return regexp.MustCompile(`\$\{[^!}][^}]*\}`).ReplaceAllStringFunc(argument.(string), func(name string) string {
			if v, ok := s.values[name[2:len(name)-1]]; ok {
				return fmt.Sprint(v)
			}
			return name
		})
	case "Fn::GetAtt", "Fn::ImportValue":
		return argument
	case "Fn::Equals":
		return fmt.Sprint(list[0]) == fmt.Sprint(list[1])
	case "Fn::Not":
		return list[0] != true
	case "Fn::And":
		return !slices.ContainsFunc(list, func(v any) bool { return v != true })
	case "Fn::Or":
		return slices.Contains(list, any(true))
	case "Fn::EachMemberIn":
		return !slices.ContainsFunc(list[0].([]any), func(v any) bool { return !slices.Contains(list[1].([]any), v) })
	case "Fn::FindInMap":
		return s.section("Mappings")[fmt.Sprint(list[0])].(map[string]any)[fmt.Sprint(list[1])].(map[string]any)[fmt.Sprint(list[2])]
	case "Fn::Split":
		var parts []any
		for part := range strings.SplitSeq(list[1].(string), list[0].(string)) {
			parts = append(parts, part)
		}
		return parts
	case "Fn::Select":
		i, err := strconv.Atoi(fmt.Sprint(list[0]))
		if err != nil {
			panic(err)
		}
		return list[1].([]any)[i]
	}
	panic("the tests do not know " + name)
}

// refusal returns the reason for which CloudFormation refuses the values of the parameters, or nil if it
// accepts the values.
func (s template) refusal() error {
	for name, p := range s.section("Parameters") {
		value, given := s.values[name]
		if !given {
			return fmt.Errorf("parameter %s has no value", name)
		}
		texts, isList := value.([]any)
		if !isList {
			texts = []any{value}
		}
		for _, text := range texts {
			if err := allowed(p.(map[string]any), fmt.Sprint(text)); err != nil {
				return fmt.Errorf("parameter %s: %w", name, err)
			}
		}
	}
	for name, r := range s.section("Rules") {
		rule := r.(map[string]any)
		if s.resolve(rule["RuleCondition"]) != true {
			continue
		}
		for _, assertion := range rule["Assertions"].([]any) {
			if s.resolve(assertion.(map[string]any)["Assert"]) != true {
				return fmt.Errorf("rule %s: %s", name, assertion.(map[string]any)["AssertDescription"])
			}
		}
	}
	return nil
}

// allowed checks a value against the constraints of its parameter.
func allowed(p map[string]any, value string) error {
	if len(value) > 4096 {
		return fmt.Errorf("%d bytes are too many", len(value))
	}
	if values, ok := p["AllowedValues"].([]any); ok && !slices.Contains(values, any(value)) {
		return fmt.Errorf("%q is none of %v", value, values)
	}
	if pattern, ok := p["AllowedPattern"].(string); ok && !regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(value) {
		return fmt.Errorf("%q does not match %s: it %v", value, pattern, p["ConstraintDescription"])
	}
	if p["Type"] != "Number" {
		return nil
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("%q is no number", value)
	}
	for bound, outside := range map[string]func(limit float64) bool{
		"MinValue": func(limit float64) bool { return n < limit },
		"MaxValue": func(limit float64) bool { return n > limit },
	} {
		limit, ok := p[bound].(string)
		if !ok {
			continue
		}
		if f, err := strconv.ParseFloat(limit, 64); err != nil || outside(f) {
			return fmt.Errorf("%s is beyond %s %s", value, bound, limit)
		}
	}
	return nil
}

// stack returns the resources of a template with these values for its parameters.
func stack(t *testing.T, file string, parameters map[string]string) map[string]any {
	t.Helper()
	return read(t, file, parameters).resources()
}
