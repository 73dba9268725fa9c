package e2e

import (
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// file returns the module as one file.
func (m *module) file() string {
	var body strings.Builder
	m.locals(&body)
	m.rules(&body)
	for name, resource := range pairs(m.sections["Resources"]) {
		m.resource(&body, name, resource)
	}
	m.outputs(&body)
	var b strings.Builder
	writeLine(&b, "# %s", m.sections["Description"].Value)
	writeLine(&b, "# This file is made from deploy/cloudformation/%s: change the template, and run", m.template)
	writeLine(&b, "# go test -C e2e -run Terraform -write-terraform .\n")
	writeLine(&b, "terraform {\nrequired_version = \">= 1.5\"\nrequired_providers {\nawscc = {\nsource = \"hashicorp/awscc\"\nversion = \"~> 1.106\"\n}\n}\n}\n")
	m.variables(&b)
	return string(hclwrite.Format([]byte(strings.TrimRight(b.String()+body.String(), "\n") + "\n")))
}

// variables writes the parameters, and the variables that replace pseudo parameters.
func (m *module) variables(b *strings.Builder) {
	descriptions := map[string]string{
		"AWS::Region": "Region of the provider", "AWS::AccountId": "Number of the account",
		"AWS::Partition": "Partition of the region", "AWS::StackName": "Begins the names of the module's resources",
	}
	for _, name := range sortedKeys(m.pseudo) {
		writeLine(b, "variable %q {\ntype = string\ndescription = %q", pseudoParameters()[name], descriptions[name])
		if name == "AWS::Partition" {
			writeLine(b, "default = \"aws\"")
		}
		writeLine(b, "}\n")
	}
	for name, p := range pairs(m.sections["Parameters"]) {
		m.variable(b, name, p)
	}
	if strings.Contains(m.template, "alarms") {
		writeLine(b, "variable \"services\" {\ntype = map(string)\ndefault = {}\ndescription = \"The output exports of the module services\"\n}\n")
	}
}

func (m *module) variable(b *strings.Builder, name, p *yaml.Node) {
	kind := "string"
	switch t := field(p, "Type").Value; {
	case t == "Number":
		kind = "number"
	case t == "CommaDelimitedList" || strings.HasPrefix(t, "List<"):
		kind = "list(string)"
	}
	writeLine(b, "variable %q {\ntype = %s", attributeName(name.Value), kind)
	if d := field(p, "Description"); d != nil {
		writeLine(b, "description = %s", quoted(d.Value))
	}
	if d := field(p, "Default"); d != nil {
		fallback := quoted(d.Value)
		if kind == "number" {
			fallback = d.Value
		} else if kind != "string" {
			require.Empty(m.t, d.Value)
			fallback = "[]"
		}
		writeLine(b, "default = %s", fallback)
	}
	says := "The value does not match the pattern of the condition."
	if d := field(p, "ConstraintDescription"); d != nil {
		says = name.Value + " " + d.Value
	}
	of := "var." + attributeName(name.Value)
	for _, rule := range []struct{ key, before, after string }{
		{"AllowedPattern", "can(regex(", ", " + of + "))"},
		{"AllowedValues", "contains(", ", " + of + ")"},
		{"MinValue", of + " >= ", ""},
		{"MaxValue", of + " <= ", ""},
	} {
		limit := field(p, rule.key)
		if limit == nil {
			continue
		}
		text := limit.Value
		switch rule.key {
		case "AllowedPattern":
			text = quoted("^(?:" + limit.Value + ")$")
		case "AllowedValues":
			text = m.value(limit, []any{"string"})
		}
		writeLine(b, "validation {\ncondition = %s\nerror_message = %s\n}", rule.before+text+rule.after, quoted(says))
	}
	writeLine(b, "}\n")
}

// locals writes the conditions and the mappings.
func (m *module) locals(b *strings.Builder) {
	if m.sections["Conditions"] == nil && m.sections["Mappings"] == nil {
		return
	}
	writeLine(b, "locals {")
	for name, condition := range pairs(m.sections["Conditions"]) {
		writeLine(b, "%s = %s", attributeName(name.Value), m.value(condition, nil))
	}
	for name, mapping := range pairs(m.sections["Mappings"]) {
		writeLine(b, "%s = %s", attributeName(name.Value), m.value(mapping, anyJSON))
	}
	writeLine(b, "}\n")
}

// rules writes the rules between parameters as preconditions.
func (m *module) rules(b *strings.Builder) {
	if m.sections["Rules"] == nil {
		return
	}
	writeLine(b, "resource \"terraform_data\" \"rules\" {\nlifecycle {")
	for _, rule := range pairs(m.sections["Rules"]) {
		when := m.value(field(rule, "RuleCondition"), nil)
		for _, assertion := range field(rule, "Assertions").Content {
			writeLine(b, "precondition {\ncondition = !(%s) || (%s)\nerror_message = %s\n}", when,
				m.value(field(assertion, "Assert"), nil), quoted(field(assertion, "AssertDescription").Value+"."))
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
		writeLine(b, "%s", name.HeadComment)
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

// outputs writes the outputs. The output exports has the values for other modules, by the end of the export's name.
func (m *module) outputs(b *strings.Builder) {
	var exports []string
	for name, output := range pairs(m.sections["Outputs"]) {
		value := m.value(field(output, "Value"), "string")
		writeLine(b, "output %q {\nvalue = %s\n}\n", attributeName(name.Value), value)
		if export := field(output, "Export"); export != nil {
			short, ok := strings.CutPrefix(field(export, "Name").Value, "${AWS::StackName}-")
			require.True(m.t, ok)
			exports = append(exports, quoted(short)+" = "+value)
		}
	}
	if len(exports) > 0 {
		writeLine(b, "output \"exports\" {\nvalue = {\n%s\n}\n}\n", strings.Join(exports, "\n"))
	}
}
