package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"fanfare/internal/id"
)

// These types are the ids of parameters and bodies. A struct tag could not use the grammars of package id.
type (
	userID string
	// listedUser is a userID whose fault is described in words.
	listedUser string
	ulid       string
)

// Schema implements huma.SchemaProvider.
func (userID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: id.UserPattern}
}

// Schema implements huma.SchemaProvider.
func (listedUser) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: id.UserPattern, PatternDescription: "a user id"}
}

// Schema implements huma.SchemaProvider.
func (ulid) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: id.ULIDPattern, PatternDescription: "a ULID"}
}

// texts returns ids as texts.
func texts[T ~string](ids []T) []string {
	var all []string
	for _, id := range ids {
		all = append(all, string(id))
	}
	return all
}
