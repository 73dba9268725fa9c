package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/table"
	"fanfare/messages"
)

// codec writes the attributes of an item, or reads them. So a type of item declares each attribute once: its method
// fields has a row for each attribute, in the stored order, with the field that the attribute stores.
type codec struct {
	reading bool
	// attrs has the attributes that are read, or the attributes that were written.
	attrs []table.Attr
	// next is the place after the attribute that was read last.
	next int
}

func reader(it table.Item) *codec { return &codec{reading: true, attrs: it.Attrs} }

// writer has room for the attributes of most items.
func writer() *codec { return &codec{attrs: make([]table.Attr, 0, 6)} }

// An attribute is written always, or only if its field is not zero.
const always, optional = true, false

// get returns the value of an attribute, the zero Value if it is missing. Most items have the stored order.
func (c *codec) get(name string) table.Value {
	at := c.next
	for range c.attrs {
		if at == len(c.attrs) {
			at = 0
		}
		if c.attrs[at].Name == name {
			c.next = at + 1
			return c.attrs[at].Value
		}
		at++
	}
	return table.Value{}
}

func (c *codec) str(name string, field *string, keep bool) {
	if c.reading {
		*field = c.get(name).Str()
	} else if keep || *field != "" {
		c.attrs = append(c.attrs, str(name, *field))
	}
}

func (c *codec) num(name string, field *int64, keep bool) {
	if c.reading {
		*field = c.get(name).Int()
	} else if keep || *field != 0 {
		c.attrs = append(c.attrs, num(name, *field))
	}
}

// flag stores true as 1, and false as no attribute.
func (c *codec) flag(name string, field *bool) {
	if c.reading {
		*field = c.get(name).Int() != 0
	} else if *field {
		c.attrs = append(c.attrs, num(name, 1))
	}
}

func (c *codec) millis(name string, field *time.Time, keep bool) {
	if c.reading {
		if v := c.get(name); v.Kind() == table.KindNumber {
			*field = time.UnixMilli(v.Int()).UTC()
		}
	} else if keep || !field.IsZero() {
		c.attrs = append(c.attrs, millis(name, *field))
	}
}

func (c *codec) ttl(field *time.Time) {
	if !c.reading {
		c.attrs = appendTTL(c.attrs, *field)
	} else if v := c.get(table.AttrTTL); v.Kind() == table.KindNumber {
		*field = time.Unix(v.Int(), 0).UTC()
	}
}

func (c *codec) shards(field *int) {
	if c.reading {
		*field = max(1, int(c.get(AttrLikeShards).Int()))
	} else {
		c.attrs = appendShards(c.attrs, *field)
	}
}

func (c *codec) mentions(field *[]string) {
	if c.reading {
		*field = mentionsOf(c.get(AttrMentions))
	} else if len(*field) > 0 {
		c.attrs = append(c.attrs, str(AttrMentions, strings.Join(*field, " ")))
	}
}

func (c *codec) images(field *[]Image) {
	if c.reading {
		_ = json.Unmarshal([]byte(c.get(AttrImages).Str()), field) // like any attribute, an unreadable one counts as missing
	} else if text := messages.ImagesText(*field); text != "" {
		c.attrs = append(c.attrs, str(AttrImages, text))
	}
}

// reference stores the post to which a post refers as its id, its author and its like shards.
func (c *codec) reference(r *Reference) {
	for _, of := range []struct {
		attr string
		post *string
	}{{AttrRepostOf, &r.RepostOf}, {AttrQuoteOf, &r.QuoteOf}} {
		text := ""
		if !c.reading && *of.post != "" {
			text = fmt.Sprint(*of.post, " ", r.OfAuthor, " ", max(1, r.OfShards))
		}
		if c.str(of.attr, &text, optional); c.reading && text != "" {
			var shards string
			*of.post, text, _ = strings.Cut(text, " ")
			r.OfAuthor, shards, _ = strings.Cut(text, " ")
			r.OfShards, _ = strconv.Atoi(shards) // like any attribute, an unreadable one counts as missing
		}
	}
}
