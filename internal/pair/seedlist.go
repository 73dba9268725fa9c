package pair

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// seedFile is a file of a seed: the end of the seed names each one. The name is empty for the frames of the seed.
type seedFile struct {
	name string
	size int64
	sum  uint32
}

// seedFileLen is the length of a seedFile in a message without its name.
const seedFileLen = 14

// add adds bytes of the file.
func (f *seedFile) add(data []byte) {
	f.size += int64(len(data))
	f.sum = crc32.Update(f.sum, crc32.MakeTable(crc32.Castagnoli), data)
}

// append appends the file in the form that parseSeedFiles reads: the length of the name u16, name, size u64, crc32c u32. Numbers are
// little-endian.
func (f seedFile) append(dst []byte) []byte {
	dst = append(binary.LittleEndian.AppendUint16(dst, uint16(len(f.name))), f.name...)
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(dst, uint64(f.size)), f.sum)
}

// parseSeedFiles reads files in the form of append.
func parseSeedFiles(data []byte) (files []seedFile, err error) {
	for len(data) > 0 {
		if len(data) < seedFileLen || len(data) < seedFileLen+int(binary.LittleEndian.Uint16(data)) {
			return nil, fmt.Errorf("%w: a list of files that ends inside a file", ErrDamaged)
		}
		n := 2 + int(binary.LittleEndian.Uint16(data))
		files = append(files, seedFile{string(data[2:n]), int64(binary.LittleEndian.Uint64(data[n:])), binary.LittleEndian.Uint32(data[n+8:])})
		data = data[n+12:]
	}
	return files, nil
}

// sendList ends a seed with the list of its files. The last part of the list is in msgWhole.
func (s *session) sendList() error {
	var data []byte
	for _, f := range append(s.files, s.frames) {
		if data = f.append(data); len(data) >= pieceSize {
			if err := s.send(msgListed, data); err != nil {
				return err
			}
			data = data[:0]
		}
	}
	return s.send(msgWhole, data)
}

// listed adds a part of the list of the primary.
func (s *seeding) listed(data []byte) error {
	files, err := parseSeedFiles(data)
	s.list = append(s.list, files...)
	return err
}

// check compares the files that have arrived with the list of the primary.
func (s *seeding) check() error {
	for i, got := range append(s.files, s.frames) {
		if i >= len(s.list) || got != s.list[i] || i == len(s.files) && i != len(s.list)-1 {
			return fmt.Errorf("%w: file %d of the copy (%q, %d bytes) is not the one in the list of the primary, so the copy begins again", ErrDamaged, i, got.name, got.size)
		}
	}
	return nil
}
