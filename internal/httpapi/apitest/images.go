package apitest

import "strings"

// imageFault is the images of a post that the API refuses, and the place of the fault.
type imageFault struct{ name, images, field string }

func imageFaults() []imageFault {
	const good = `{"url":"https://img.example/a.png"}`
	with := func(members string) string {
		return `[` + good + `,` + good + `,{"url":"https://x.example/",` + members + `}]`
	}
	at := func(url string) string { return `[{"url":"` + url + `"}]` }
	many := func(n int, image string) string {
		return `[` + strings.TrimSuffix(strings.Repeat(image+",", n), ",") + `]`
	}
	return []imageFault{
		{"eleven images", many(11, good), "images"},
		{"images of more bytes", many(10, `{"url":"https://img.example/a.png","alt":"`+strings.Repeat("ä", 1500)+`"}`), "images"},
		{"images null", `null`, "images"},
		{"images no list", good, "images"},
		{"image null", `[null]`, "images[0]"},
		{"image a text", `["https://img.example/a.png"]`, "images[0]"},
		{"image with an unknown member", with(`"blurhash":"x"`), "images[2].blurhash"},
		{"image with a member twice", with(`"alt":"a","alt":"b"`), "images[2].alt"},
		{"image without an address", `[{"alt":"a"}]`, "images[0].url"},
		{"image, address empty", at(""), "images[0].url"},
		{"image, address null", `[{"url":null}]`, "images[0].url"},
		{"image, address a number", `[{"url":1}]`, "images[0].url"},
		{"image, data: address", at("data:image/png;base64,AA=="), "images[0].url"},
		{"image, javascript: address", at("javascript:alert(1)"), "images[0].url"},
		{"image, ftp: address", at("ftp://x.example/y"), "images[0].url"},
		{"image, address without a host", at("https:///a.png"), "images[0].url"},
		{"image, address with a user name", at("https://ann:secret@x.example/"), "images[0].url"},
		{"image, address with a quote", at("https://x.example/'"), "images[0].url"},
		{"image, address that turns text", at(`https://x.example/\u202e`), "images[0].url"},
		{"image, address too long", at("https://x/" + strings.Repeat("a", 2039)), "images[0].url"},
		{"image, alt of 2,000 characters", with(`"alt":"` + strings.Repeat("a", 2000) + `"`), "images[2].alt"},
		{"image, alt that turns text", with(`"alt":"\u202e"`), "images[2].alt"},
		{"image, alt null", with(`"alt":null`), "images[2].alt"},
		{"image, width of zero", with(`"width":0,"height":1`), "images[2].width"},
		{"image, height of zero", with(`"width":1,"height":0`), "images[2].height"},
		{"image, width below zero", with(`"width":-1,"height":1`), "images[2].width"},
		{"image, height above the limit", with(`"width":1,"height":65536`), "images[2].height"},
		{"image, width beyond any integer", with(`"width":1e300,"height":1`), "images[2].width"},
		{"image, width not whole", with(`"width":1.5,"height":1`), "images[2].width"},
		{"image, width a text", with(`"width":"1","height":1`), "images[2].width"},
		{"image, width null", with(`"width":null,"height":1`), "images[2].width"},
		{"image, width alone", with(`"width":1`), "images[2].height"},
		{"image, height alone", with(`"height":1`), "images[2].width"},
	}
}
