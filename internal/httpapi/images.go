package httpapi

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"fanfare/client"
	"fanfare/internal/feed"
	"fanfare/messages"
)

// images are the images of a post in a request. The domain checks the values of images, as it does for
// events and imports, so only the document has their limits.
type images []feed.Image

// Schema implements huma.SchemaProvider.
func (images) Schema(r huma.Registry) *huma.Schema {
	image := r.Schema(reflect.TypeFor[client.Image](), true, "Image")
	side := map[string]any{"minimum": 1, "maximum": messages.MaxSide}
	for name, limits := range map[string]map[string]any{
		"url": {"minLength": 1, "maxLength": messages.MaxImageURL}, "alt": {"maxLength": messages.MaxAlt}, "width": side, "height": side,
	} {
		r.SchemaFromRef(image.Ref).Properties[name].Extensions = limits
	}
	return &huma.Schema{Type: huma.TypeArray, Items: image, Extensions: map[string]any{"maxItems": messages.MaxImages}}
}

func toImage(i feed.Image) client.Image {
	out := client.Image{URL: i.URL, Alt: i.Alt}
	if i.Width != nil && i.Height != nil {
		out.Width, out.Height = *i.Width, *i.Height
	}
	return out
}
