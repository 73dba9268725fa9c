package obs

import "sync"

// series keeps the used series of vectors, because the search for a series by its labels costs more than
// the rest of an observation. Labels have few values, so a vector has few series.
type series[K comparable, S any] struct {
	find func(K) S

	mu   sync.RWMutex
	used map[K]S
}

func newSeries[K comparable, S any](find func(K) S) *series[K, S] {
	return &series[K, S]{find: find, used: map[K]S{}}
}

func (s *series[K, S]) of(key K) S {
	s.mu.RLock()
	found, ok := s.used[key]
	s.mu.RUnlock()
	if ok {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.find(key)
	s.used[key] = found
	return found
}
