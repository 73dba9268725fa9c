package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
)

var writeTerraform = flag.Bool("write-terraform", false, "write the modules of Terraform")

// terraformTemplates are the templates with a module. The provider awscc has no budgets, and archive.yaml belongs to one
// machine beside AWS.
func terraformTemplates() []string { return []string{"data.yaml", "services.yaml", "alarms.yaml"} }

func terraformFolder(template string) string {
	return filepath.Join("../deploy/terraform", strings.TrimSuffix(template, ".yaml"))
}

func TestTheModulesOfTerraformAreMadeFromTheTemplates(t *testing.T) {
	all, err := filepath.Glob("../deploy/cloudformation/*.yaml")
	require.NoError(t, err)
	require.Len(t, all, len(terraformTemplates())+2, "each template but budget.yaml and archive.yaml has a module")
	for _, template := range terraformTemplates() {
		folder, files := terraformFolder(template), newModule(t, template).files()
		for name, want := range files {
			path := filepath.Join(folder, name)
			if *writeTerraform {
				require.NoError(t, os.MkdirAll(folder, 0o750))
				require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
			}
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equalf(t, want, string(got), "%s: run go test -C e2e -run Terraform -write-terraform .", path)
		}
		there, err := filepath.Glob(filepath.Join(folder, "*"))
		require.NoError(t, err)
		assert.Len(t, there, len(files), folder)
	}
}

// stackValues returns values for the parameters of each template: the defaults, and each option switched on. refused
// are values that a template refuses.
func stackValues() (accepted, refused map[string][]map[string]string) {
	services := func(more ...string) map[string]string {
		values := map[string]string{
			"Image": "registry/fanfare:1", "Subnets": "subnet-1,subnet-2", "SecurityGroups": "sg-1", "JwtIssuer": "https://issuer.example",
			"JwtAudience": "feed, app", "TargetGroup": "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/fanfare/1",
		}
		for i := 0; i < len(more); i += 2 {
			values[more[i]] = more[i+1]
		}
		return values
	}
	balancer := "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/app/fanfare/1"
	provisioned := map[string]string{
		"BillingMode": "PROVISIONED", "WriteUnits": "500-10000", "ReadUnits": "500-10000", "IndexWriteUnits": "50-1000", "IndexReadUnits": "50-1000",
		"FirstWriteUnits": "500", "FirstReadUnits": "501", "FirstIndexWriteUnits": "502", "FirstIndexReadUnits": "503",
	}
	accepted = map[string][]map[string]string{
		"data.yaml": {
			{}, provisioned, {"TableName": "feeds", "QueuePrefix": "q", "DeletionProtection": "false", "MaxWriteUnits": "5000", "WarmReadUnits": "13000"},
			{"MaxWriteUnits": "5000", "WarmWriteUnits": "5000", "MaxReadUnits": "20000"},
		},
		"services.yaml": {
			services(), services("EventsQueue", "events"), services("Size", "4vCPU-16GB", "Architecture", "ARM64", "EventsQueue", "events", "EnvironmentFile", "arn:aws:s3:::bucket/settings.env",
				"EndpointVpc", "vpc-1", "EndpointRouteTables", "rtb-1,rtb-2", "PublicIp", "ENABLED", "ApiTasks", "7", "DrainSeconds", "30", "JwksUrl", "https://issuer.example/keys"),
		},
		"alarms.yaml": {
			{}, {"ServicesStack": "feed", "LoadBalancer": balancer, "TargetGroup": services()["TargetGroup"], "AlarmTopic": "arn:aws:sns:eu-central-1:123456789012:alarms", "TableName": "feeds"},
		},
	}
	refused = map[string][]map[string]string{
		"data.yaml": {
			{"TableName": "a"}, {"BillingMode": "PROVISIONED"}, {"BillingMode": "FREE"}, {"WriteUnits": "4000-1000"},
			{"MaxWriteUnits": "5000", "WarmWriteUnits": "4000"}, {"MaxReadUnits": "15000", "WarmReadUnits": "14000"},
		},
		"services.yaml": {
			services("Size", "1vCPU-1GB"), services("ApiTasks", "1"), services("JwtIssuer", "http://issuer.example"), services("JwtAudience", "a,,b"),
			services("EndpointVpc", "vpc-1"), services("DrainSeconds", "91"),
		},
		"alarms.yaml": {{"LoadBalancer": balancer}, {"LoadBalancer": "arn:aws:sns:eu-central-1:123456789012:alarms", "TargetGroup": services()["TargetGroup"]}},
	}
	return accepted, refused
}

// TestTheModulesOfTerraformEqualTheStacks evaluates each template and its module with the same values. Each resource and
// each property of one has to be in the other with the same value.
func TestTheModulesOfTerraformEqualTheStacks(t *testing.T) {
	t.Parallel()
	accepted, refused := stackValues()
	for _, template := range terraformTemplates() {
		for i, values := range accepted[template] {
			t.Run(fmt.Sprint(template, " ", i), func(t *testing.T) {
				stack := read(t, template, values)
				require.NoError(t, stack.refusal())
				module := readTerraform(t, template, stack)
				require.Empty(t, module.refusal())
				want, got := expected(t, stack), module.resources()
				require.NotEmpty(t, want)
				for name, attributes := range want {
					parseJSON(t, name, attributes, got[name])
					assert.Equal(t, attributes, got[name], name)
				}
				assert.Len(t, got, len(want))
			})
		}
		for _, values := range refused[template] {
			stack := read(t, template, values)
			require.Error(t, stack.refusal(), "%v", values)
			assert.NotEmpty(t, readTerraform(t, template, stack).refusal(), "%s accepts %v", template, values)
		}
	}
}

// expected returns the attributes that the resources of a stack have in Terraform.
func expected(t *testing.T, stack template) map[string]map[string]any {
	t.Helper()
	schema, all := providerSchema(t), map[string]map[string]any{}
	for name, r := range stack.resources() {
		resource := r.(map[string]any)
		properties := resource["Properties"].(map[string]any)
		if resource["Type"] == "AWS::IAM::Policy" {
			for _, role := range properties["Roles"].([]any) {
				all["awscc_iam_role_policy."+attributeName(name)+"_"+attributeName(role.(string))] = map[string]any{
					"role_name": role, "policy_name": properties["PolicyName"], "policy_document": texts(properties["PolicyDocument"]),
				}
			}
			continue
		}
		kind := resourceType(resource["Type"].(string))
		attributes := attributesOf(t, schema[kind], properties).(map[string]any)
		if resource["DeletionPolicy"] == "Retain" {
			attributes["prevent_destroy"] = "true"
		}
		if needs, ok := resource["DependsOn"].([]any); ok {
			var on []any
			for _, need := range needs {
				other := stack.section("Resources")[need.(string)].(map[string]any)
				on = append(on, resourceType(other["Type"].(string))+"."+attributeName(need.(string)))
			}
			attributes["depends_on"] = on
		}
		all[kind+"."+attributeName(name)] = attributes
	}
	return all
}

// attributesOf returns a value of a template in the provider's form.
func attributesOf(t *testing.T, kind, v any) any {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		attributes, ok := kind.(map[string]any)
		if !ok {
			return texts(v)
		}
		m := map[string]any{}
		for name, part := range v {
			require.Containsf(t, attributes, attributeName(name), "the provider has no attribute for %s", name)
			m[attributeName(name)] = attributesOf(t, attributes[attributeName(name)], part)
		}
		return m
	case []any:
		parts, ok := kind.([]any)
		if !ok {
			return texts(v)
		}
		l := []any{}
		for _, part := range v {
			l = append(l, attributesOf(t, parts[0], part))
		}
		return l
	}
	return texts(v)
}

// unresolved matches a reference that package template leaves in a text.
var unresolved = regexp.MustCompile(`\$\{([A-Za-z.]+)\}`)

// texts returns a value with texts as scalars.
func texts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for name, part := range v {
			m[name] = texts(part)
		}
		return m
	case []any:
		l := []any{}
		for _, part := range v {
			l = append(l, texts(part))
		}
		return l
	}
	return unresolved.ReplaceAllString(fmt.Sprint(v), "$1")
}

// parseJSON replaces texts of JSON in the attributes of a module, where the template has values.
func parseJSON(t *testing.T, name string, want, got map[string]any) {
	t.Helper()
	for attribute, value := range want {
		_, isText := value.(string)
		if text, ok := got[attribute].(string); ok && !isText {
			got[attribute] = parsed(t, text)
		}
		if kind, _, _ := strings.Cut(name, "."); kind == "awscc_iam_role" && attribute == "policies" {
			for _, policy := range got[attribute].([]any) {
				p := policy.(map[string]any)
				p["policy_document"] = parsed(t, p["policy_document"])
			}
		}
	}
}

// TestTheNumbersOfTerraformHaveTheBoundsOfThePatterns compares the rule of each number with the pattern of its parameter.
func TestTheNumbersOfTerraformHaveTheBoundsOfThePatterns(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, template := range terraformTemplates() {
		rules := map[string]*hclsyntax.Block{}
		m := parseTerraform(t, terraformFolder(template))
		for _, block := range m.blocks("variable") {
			rules[block.Labels[0]] = block
		}
		for name, v := range newModule(t, template).parameters {
			if v.high == "" || v.of("AllowedPattern") == "" {
				continue
			}
			compared++
			pattern := regexp.MustCompile("^(?:" + v.of("AllowedPattern") + ")$")
			low, err := strconv.ParseInt(v.low, 10, 64)
			require.NoError(t, err)
			high, err := strconv.ParseInt(v.high, 10, 64)
			require.NoError(t, err)
			for _, n := range []int64{-1, 0, 1, low - 1, low, low + 1, high / 2, high - 1, high, high + 1} {
				m.eval.Variables["var"] = cty.ObjectVal(map[string]cty.Value{v.name: cty.NumberIntVal(n)})
				takes := m.value(rules[v.name].Body.Blocks[0].Body.Attributes["condition"].Expr).True()
				assert.Equal(t, pattern.MatchString(fmt.Sprint(n)), takes, "%s: %d", name, n)
			}
		}
	}
	assert.GreaterOrEqual(t, compared, 10)
}

// TestTheModulesOfTerraformSpeakOfTheirOwnVariables looks for names of CloudFormation in the descriptions and the refusals.
func TestTheModulesOfTerraformSpeakOfTheirOwnVariables(t *testing.T) {
	t.Parallel()
	for _, template := range terraformTemplates() {
		made, m := newModule(t, template), parseTerraform(t, terraformFolder(template))
		texts := map[string]string{}
		for _, block := range m.blocks("variable") {
			texts[block.Labels[0]] = m.value(block.Body.Attributes["description"].Expr).AsString()
			for _, rule := range block.Body.Blocks {
				says := m.value(rule.Body.Attributes["error_message"].Expr).AsString()
				assert.True(t, strings.HasPrefix(says, block.Labels[0]+" must "), says)
				texts[says] = says
			}
		}
		for _, resource := range m.blocks("resource") {
			if resource.Labels[0] == "terraform_data" {
				for _, rule := range resource.Body.Blocks[0].Body.Blocks {
					says := m.value(rule.Body.Attributes["error_message"].Expr).AsString()
					texts[says] = says
				}
			}
		}
		for where, text := range texts {
			for name := range made.parameters {
				if wordEnd.MatchString(name) {
					assert.NotContains(t, text, name, where)
				}
			}
			assert.NotRegexp(t, `CloudFormation|\.yaml|\d\d-\d|ENABLED|\.\.$`, text, where)
		}
	}
}

// TestTheExampleOfTerraformFits compares the calls of the example with the variables and the outputs of the modules.
func TestTheExampleOfTerraformFits(t *testing.T) {
	t.Parallel()
	outputs := map[string]map[string]bool{}
	variables := map[string]map[string]bool{} // true if the variable has no default
	for _, template := range terraformTemplates() {
		name := strings.TrimSuffix(template, ".yaml")
		m := parseTerraform(t, terraformFolder(template))
		outputs[name], variables[name] = map[string]bool{}, map[string]bool{}
		for _, block := range m.blocks("output") {
			outputs[name][block.Labels[0]] = true
		}
		for _, block := range m.blocks("variable") {
			variables[name][block.Labels[0]] = block.Body.Attributes["default"] == nil
		}
	}
	example, called := parseTerraform(t, "../deploy/terraform/example"), 0
	for _, call := range example.blocks("module") {
		called++
		name := filepath.Base(example.value(call.Body.Attributes["source"].Expr).AsString())
		for argument, a := range call.Body.Attributes {
			if argument == "source" || argument == "depends_on" {
				continue
			}
			assert.Contains(t, variables[name], argument, name)
			for _, reference := range a.Expr.Variables() {
				if reference.RootName() == "module" {
					other, output := reference[1].(hcl.TraverseAttr).Name, reference[2].(hcl.TraverseAttr).Name
					assert.True(t, outputs[other][output], "module.%s.%s", other, output)
				}
			}
		}
		for variable, isNeeded := range variables[name] {
			assert.True(t, !isNeeded || call.Body.Attributes[variable] != nil, "%s needs %s", name, variable)
		}
	}
	assert.Equal(t, len(terraformTemplates()), called)
}
