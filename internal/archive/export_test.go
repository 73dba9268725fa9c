package archive

// EncodeTerm encodes a term.
func EncodeTerm(t Term) ([]byte, error) { return t.encode() }

// DecodeTerm decodes a term.
func DecodeTerm(text []byte, number uint64) (Term, error) { return decodeTerm(text, number) }
