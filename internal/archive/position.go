package archive

import "fanfare/internal/stream"

// Position is a stream.Position that is encoded as an object of JSON.
type Position struct {
	Queue stream.Place `json:"queue"`
	Table stream.Place `json:"table"`
}

// stream returns the position of the stream.
func (p Position) stream() stream.Position { return stream.Position(p) }
