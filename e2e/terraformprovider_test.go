package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// plannerVariable makes the test binary a provider of Terraform with the attributes of awscc (testdata/awscc.json), because the
// registry of providers is away. The planner accepts each configuration, and can only plan.
const plannerVariable = "TERRAFORM_PLANNER"

type planner struct {
	tfprotov6.ProviderServer // the calls of an apply, which no test makes

	schemas map[string]*tfprotov6.Schema
}

// servePlanner answers Terraform until Terraform ends the process.
func servePlanner() error {
	text, err := os.ReadFile(os.Getenv(plannerVariable))
	if err != nil {
		return err
	}
	var types map[string]map[string]any
	if err := json.Unmarshal(text, &types); err != nil {
		return err
	}
	s := planner{schemas: map[string]*tfprotov6.Schema{}}
	for name, attributes := range types {
		for _, readOnly := range append(readOnlyAttributes()[name], "id") {
			if attributes[readOnly] == nil {
				attributes[readOnly] = "string"
			}
		}
		s.schemas[name] = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{Attributes: schemaAttributes(attributes)}}
	}
	return tf6server.Serve("registry.terraform.io/hashicorp/awscc", func() tfprotov6.ProviderServer { return s })
}

// readOnlyAttributes are the attributes to which modules refer and which no configuration has.
func readOnlyAttributes() map[string][]string {
	return map[string][]string{
		"awscc_applicationautoscaling_scalable_target": {"scalable_target_id"}, "awscc_ecs_service": {"name"},
		"awscc_ecs_task_definition": {"task_definition_arn"}, "awscc_iam_managed_policy": {"policy_arn"}, "awscc_iam_role": {"arn"},
		"awscc_sqs_queue": {"arn"},
	}
}

func schemaAttributes(of map[string]any) (all []*tfprotov6.SchemaAttribute) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		a := &tfprotov6.SchemaAttribute{Name: name, Optional: true, Computed: true}
		switch kind := of[name].(type) {
		case map[string]any:
			a.NestedType = &tfprotov6.SchemaObject{Nesting: tfprotov6.SchemaObjectNestingModeSingle, Attributes: schemaAttributes(kind)}
		case []any:
			if parts, ok := kind[0].(map[string]any); ok {
				a.NestedType = &tfprotov6.SchemaObject{Nesting: tfprotov6.SchemaObjectNestingModeList, Attributes: schemaAttributes(parts)}
			} else {
				a.Type = tftypes.List{ElementType: schemaType(kind[0])}
			}
		default:
			a.Type = schemaType(kind)
		}
		all = append(all, a)
	}
	return all
}

func schemaType(kind any) tftypes.Type {
	switch kind {
	case "number":
		return tftypes.Number
	case "bool":
		return tftypes.Bool
	case "map":
		return tftypes.Map{ElementType: tftypes.String}
	}
	return tftypes.String
}

func (s planner) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	settings := &tfprotov6.SchemaBlock{Attributes: []*tfprotov6.SchemaAttribute{{Name: "region", Type: tftypes.String, Optional: true}}}
	return &tfprotov6.GetProviderSchemaResponse{Provider: &tfprotov6.Schema{Block: settings}, ResourceSchemas: s.schemas}, nil
}

func (planner) ValidateProviderConfig(_ context.Context, req *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: req.Config}, nil
}

func (planner) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (planner) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

func (planner) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

// PlanResourceChange leaves the attributes that the configuration does not set unknown.
func (s planner) PlanResourceChange(_ context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	of := s.schemas[req.TypeName].ValueType()
	proposed, err := req.ProposedNewState.Unmarshal(of)
	if err != nil {
		return nil, err
	}
	attributes := map[string]tftypes.Value{}
	if err := proposed.As(&attributes); err != nil {
		return nil, err
	}
	for name, value := range attributes {
		if value.IsNull() {
			attributes[name] = tftypes.NewValue(value.Type(), tftypes.UnknownValue)
		}
	}
	planned, err := tfprotov6.NewDynamicValue(of, tftypes.NewValue(of, attributes))
	return &tfprotov6.PlanResourceChangeResponse{PlannedState: &planned}, err
}
