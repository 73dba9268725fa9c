package feed_test

// explored is the result of an exploration: the number of states, and the shortest path to a fault.
type explored struct {
	states int
	fault  string
	path   []string
}

// move is one step of a small world to its next state.
type move[S any] struct {
	name string
	to   S
}

// explore visits every state of small worlds, in the order of their distance.
func explore[S comparable](from []S, next func(S) []move[S], wrong func(S) string) explored {
	type came struct {
		prev S
		by   string
	}
	seen := map[S]came{}
	queue := make([]S, 0, len(from))
	for _, s := range from {
		if _, ok := seen[s]; !ok {
			seen[s] = came{}
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if fault := wrong(s); fault != "" {
			var path []string
			for at := seen[s]; at.by != ""; at = seen[at.prev] {
				path = append([]string{at.by}, path...)
			}
			return explored{len(seen), fault, path}
		}
		for _, m := range next(s) {
			if _, ok := seen[m.to]; !ok {
				seen[m.to] = came{s, m.name}
				queue = append(queue, m.to)
			}
		}
	}
	return explored{states: len(seen)}
}
