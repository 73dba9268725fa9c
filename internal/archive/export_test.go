package archive

// EncodeTerm encodes a term.
func EncodeTerm(t Term) ([]byte, error) { return t.encode() }

// DecodeTerm decodes a term.
func DecodeTerm(text []byte, number uint64) (Term, error) { return decodeTerm(text, number) }

// SetMost sets the largest number of bytes of frames in a segment.
func (a *Archiver) SetMost(bytes int) { a.most = bytes }
