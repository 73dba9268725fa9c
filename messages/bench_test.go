package messages

import (
	"testing"
	"time"
)

func BenchmarkLike(b *testing.B) {
	e := &Liked{Like{
		Header: Header{EventID: "01JD8QJ4WZ0000000000000001", Time: time.Unix(1, 0).UTC(), RequestID: "01JD8QJ4WZ0000000000000001"},
		PostID: "01JD8QJ4WY0000000000000002", UserID: "user0000001", AuthorID: "user0000002", LikeShards: 1,
	}}
	payload, err := Encode(e)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Encode(e); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}
