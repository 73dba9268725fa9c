package stream_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/stream"
)

func TestAPlaceInJSONIsAList(t *testing.T) {
	t.Parallel()
	place := stream.Place{Log: 7, Offset: 1 << 40}
	text, err := json.Marshal(place)
	require.NoError(t, err)
	assert.JSONEq(t, `[7,1099511627776]`, string(text))
	var back stream.Place
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, place, back)
	for _, wrong := range []string{`[]`, `[1]`, `[1,2,3]`, `null`, `[1,-2]`, `[1.5,2]`, `{"Log":1,"Offset":2}`, `"1,2"`} {
		assert.Error(t, json.Unmarshal([]byte(wrong), &back), wrong)
	}
}
