package config

// Nearest returns the name that differs least from name, in most single-byte changes at most, "" for none.
func Nearest(name string, names []string, most int) (best string) {
	for _, n := range names {
		if d := editDistance(name, n); d <= most {
			best, most = n, d-1
		}
	}
	return best
}

// editDistance returns the number of single-byte changes that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
