package auth_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/auth"
)

func BenchmarkVerify(b *testing.B) {
	dev, err := auth.NewDev(make([]byte, auth.MinSecretBytes), time.Now)
	require.NoError(b, err)
	tokens := make([]string, 100_000) // more tokens than the verifier remembers
	for i := range tokens {
		tokens[i], _, err = dev.Issue("user-"+strconv.Itoa(i), time.Hour)
		require.NoError(b, err)
	}
	for name, many := range map[string]int{"new": len(tokens), "known": 1000} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, err := dev.Verify(b.Context(), tokens[i%many])
				require.NoError(b, err)
			}
		})
	}
}
