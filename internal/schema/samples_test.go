package schema_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// docs/formats.txt comes from the samples of the model, so an attribute without a sample is in no list of formats.
func TestEachAttributeOfContentHasASample(t *testing.T) {
	t.Parallel()
	text, err := schema.WorkbenchModel("fanfare")
	require.NoError(t, err)
	var model struct {
		DataModel []struct {
			TableFacets []struct {
				FacetName        string
				NonKeyAttributes []string
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &model))
	full := map[string]table.Item{
		"Post": filled[schema.Post](t, "Deleted").Item(), "Comment": filled[schema.Comment](t).Item(), "Profile": filled[schema.Profile](t).Item(),
	}
	for _, facet := range model.DataModel[0].TableFacets {
		for _, a := range full[facet.FacetName].Attrs {
			if !slices.Contains([]string{schema.AttrLikeShards, table.AttrTTL}, a.Name) { // attributes of many types of item
				assert.Containsf(t, facet.NonKeyAttributes, a.Name, "a sample of a %s in workbench.go", facet.FacetName)
			}
		}
		delete(full, facet.FacetName)
	}
	assert.Empty(t, full, "the model has each of these facets")
}
