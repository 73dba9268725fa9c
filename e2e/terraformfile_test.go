package e2e

import (
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// files returns the files of the module, by their names.
func (m *module) files() map[string]string {
	var main strings.Builder
	m.locals(&main)
	m.rules(&main)
	for name, resource := range pairs(m.sections["Resources"]) {
		m.resource(&main, name, resource)
	}
	head := "# This file is made from deploy/cloudformation/" + m.template + ": change the template, and run\n" +
		"# go test -C e2e -run Terraform -write-terraform .\n\n"
	files := map[string]string{
		"main.tf":    "# " + m.words(m.sections["Description"].Value) + "\n" + head + main.String(),
		"outputs.tf": head + m.outputs(),
		// The variables come last, because the other parts show which pseudo parameters the module uses.
		"variables.tf": head + m.variables(),
		"versions.tf":  head + "terraform {\nrequired_version = \">= 1.5\"\nrequired_providers {\nawscc = {\nsource = \"hashicorp/awscc\"\nversion = \"~> 1.106\"\n}\n}\n}\n",
	}
	for name, text := range files {
		if text == head {
			delete(files, name)
			continue
		}
		files[name] = string(hclwrite.Format([]byte(strings.TrimRight(text, "\n") + "\n")))
	}
	return files
}

// locals writes the conditions and the mappings.
func (m *module) locals(b *strings.Builder) {
	if m.sections["Conditions"] == nil && m.sections["Mappings"] == nil {
		return
	}
	writeLine(b, "locals {")
	for name, condition := range pairs(m.sections["Conditions"]) {
		writeLine(b, "%s = %s", attributeName(name.Value), m.condition(condition, true))
	}
	for name, mapping := range pairs(m.sections["Mappings"]) {
		writeLine(b, "%s = {", attributeName(name.Value))
		for key, row := range pairs(mapping) {
			var columns []string
			for column, value := range pairs(row) {
				columns = append(columns, attributeName(column.Value)+" = "+quoted(value.Value))
			}
			writeLine(b, "%s = { %s }", quoted(key.Value), strings.Join(columns, ", "))
		}
		writeLine(b, "}")
	}
	writeLine(b, "}\n")
}

// condition returns a condition, or its negation, as an expression without parentheses around the whole.
func (m *module) condition(n *yaml.Node, holds bool) string {
	name, n := intrinsic(n)
	not := map[bool]string{false: "!"}[holds]
	switch name {
	case "Condition":
		return not + "local." + attributeName(n.Value)
	case "Not":
		return m.condition(n.Content[0], !holds)
	case "Equals":
		return m.compared(n.Content[0], map[bool]string{true: " == ", false: " != "}[holds], n.Content[1])
	case "EachMemberIn": // a list of CloudFormation is never empty, but may have one empty text
		_, list := intrinsic(n.Content[0])
		require.Equal(m.t, []string{""}, []string{n.Content[1].Content[0].Value})
		return "length(" + m.ref(list.Value) + ")" + map[bool]string{true: " == 0", false: " > 0"}[holds]
	case "And", "Or":
		var all []string
		for _, part := range n.Content {
			all = append(all, m.grouped(part, holds))
		}
		return strings.Join(all, map[bool]string{true: " && ", false: " || "}[(name == "And") == holds])
	}
	m.t.Fatalf("%s: a condition has no %s", m.template, name)
	return ""
}

// grouped returns a condition that may stand beside && and ||.
func (m *module) grouped(n *yaml.Node, holds bool) string {
	text := m.condition(n, holds)
	if strings.Contains(text, " && ") || strings.Contains(text, " || ") {
		return "(" + text + ")"
	}
	return text
}

// compared returns the comparison of a parameter with a text or with another parameter.
func (m *module) compared(left *yaml.Node, operator string, right *yaml.Node) string {
	_, name := intrinsic(left)
	v := m.parameters[name.Value]
	if of, other := intrinsic(right); of == "Ref" {
		return "var." + v.name + operator + m.ref(other.Value)
	}
	return "var." + v.name + operator + v.equals(right.Value)
}

// rules writes the rules between parameters as preconditions.
func (m *module) rules(b *strings.Builder) {
	if m.sections["Rules"] == nil {
		return
	}
	writeLine(b, "resource \"terraform_data\" \"rules\" {\nlifecycle {")
	for _, rule := range pairs(m.sections["Rules"]) {
		for _, assertion := range field(rule, "Assertions").Content {
			writeLine(b, "precondition {\ncondition = %s || %s\nerror_message = %s\n}", m.grouped(field(rule, "RuleCondition"), false),
				m.grouped(field(assertion, "Assert"), true), quoted(m.words(field(assertion, "AssertDescription").Value)+"."))
		}
	}
	writeLine(b, "}\n}\n")
}

func (m *module) resource(b *strings.Builder, name, resource *yaml.Node) {
	if m.types[name.Value] == "AWS::IAM::Policy" { // the provider has a policy of one role only
		m.rolePolicies(b, name, resource)
		return
	}
	kind := resourceType(m.types[name.Value])
	attributes, ok := m.schema[kind].(map[string]any)
	require.Truef(m.t, ok, "testdata/awscc.json has no %s", kind)
	m.begin(b, name, kind, attributeName(name.Value))
	for key, value := range pairs(field(resource, "Properties")) {
		attribute := attributeName(key.Value)
		require.NotNilf(m.t, attributes[attribute], "%s has no attribute %s", kind, attribute)
		writeLine(b, "%s = %s", attribute, m.value(value, attributes[attribute]))
	}
	if needs := field(resource, "DependsOn"); needs != nil {
		var all []string
		for _, on := range needs.Content {
			all = append(all, resourceType(m.types[on.Value])+"."+attributeName(on.Value))
		}
		writeLine(b, "depends_on = [%s]", strings.Join(all, ", "))
	}
	if keep := field(resource, "DeletionPolicy"); keep != nil && keep.Value == "Retain" {
		writeLine(b, "lifecycle {\nprevent_destroy = true\n}")
	}
	writeLine(b, "}\n")
}

// begin writes the comment and the head of a resource.
func (m *module) begin(b *strings.Builder, name *yaml.Node, kind, label string) {
	if name.HeadComment != "" {
		writeLine(b, "%s", m.words(name.HeadComment))
	}
	writeLine(b, "resource %q %q {", kind, label)
	if condition := m.conditions[name.Value]; condition != "" {
		writeLine(b, "count = local.%s ? 1 : 0", attributeName(condition))
	}
}

func (m *module) rolePolicies(b *strings.Builder, name, resource *yaml.Node) {
	properties := field(resource, "Properties")
	for _, role := range field(properties, "Roles").Content {
		m.begin(b, name, "awscc_iam_role_policy", attributeName(name.Value)+"_"+attributeName(role.Value))
		writeLine(b, "role_name = %s\npolicy_name = %s\npolicy_document = %s\n}\n", m.value(role, "string"),
			m.value(field(properties, "PolicyName"), "string"), m.value(field(properties, "PolicyDocument"), "string"))
	}
}

// outputs returns the outputs. The output exports has the values for other modules, by the end of the export's name.
func (m *module) outputs() string {
	var b strings.Builder
	var exports []string
	for name, output := range pairs(m.sections["Outputs"]) {
		value := m.value(field(output, "Value"), "string")
		writeLine(&b, "output %q {\nvalue = %s\n}\n", attributeName(name.Value), value)
		if export := field(output, "Export"); export != nil {
			short, ok := strings.CutPrefix(field(export, "Name").Value, "${AWS::StackName}-")
			require.True(m.t, ok)
			exports = append(exports, short+" = "+value)
		}
	}
	if len(exports) > 0 {
		writeLine(&b, "output \"exports\" {\nvalue = {\nname = %s\n%s\n}\n}\n", m.ref("AWS::StackName"), strings.Join(exports, "\n"))
	}
	return b.String()
}
