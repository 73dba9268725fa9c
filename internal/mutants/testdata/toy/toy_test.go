package toy

import (
	"flag"
	"testing"
)

var (
	from  = flag.Int("from", 1, "")
	seeds = flag.Int("seeds", 1, "")
	_     = flag.Bool("stop", false, "")
	_     = flag.Int("shrink", 0, "")
)

// TestGrown never asks at the bound.
func TestGrown(t *testing.T) {
	if Grown(5) || !Grown(50) {
		t.Error("five is grown, or fifty is not")
	}
}

func TestCheers(t *testing.T) {
	for n, want := range []string{"", "hurrah ", "hurrah hurrah "} {
		if Cheers(n) != want {
			t.Error("no cheers")
		}
	}
}

// TestSeeds stands for the simulation: its first seed finds nothing.
func TestSeeds(t *testing.T) {
	if *from+*seeds > 2 && (Price(9) != 27 || Price(10) != 25) {
		t.Error("a wrong price")
	}
}
