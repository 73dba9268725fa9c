package transfer

import (
	"encoding/json"
	"errors"
)

// Imported is the result of an import.
type Imported struct {
	// Records has the numbers of the records that are in the table, and LeftOut has the other records of the files.
	Records Counts
	LeftOut LeftOut
	// Entries is the number of timeline entries that were found in followers' homes.
	Entries int
	// WCU is the number of write units of the import.
	WCU float64
	// DeliverySeconds is the duration of writing the posts and delivering them.
	DeliverySeconds, Seconds float64
}

// MarshalJSON implements json.Marshaler. The numbers of records are members beside the other members.
func (i Imported) MarshalJSON() ([]byte, error) {
	all := map[string]any{"left_out": i.LeftOut, "entries": i.Entries, "wcu": i.WCU, "delivery_seconds": i.DeliverySeconds, "seconds": i.Seconds}
	for name, n := range i.Records {
		all[name] = n
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *Imported) UnmarshalJSON(text []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*i = Imported{Records: Counts{}}
	var errs []error
	for name, at := range map[string]any{"left_out": &i.LeftOut, "entries": &i.Entries, "wcu": &i.WCU, "delivery_seconds": &i.DeliverySeconds, "seconds": &i.Seconds} {
		errs = append(errs, json.Unmarshal(all[name], at))
		delete(all, name)
	}
	for name, number := range all {
		var n int
		errs = append(errs, json.Unmarshal(number, &n))
		i.Records[name] = n
	}
	return errors.Join(errs...)
}

// LeftOut has the numbers of records that an import left out, by the reason.
type LeftOut struct {
	// Ended has the posts that have ended, and the comments, likes and bookmarks of ended posts.
	Ended Counts `json:"ended"`
	// Deleted has the posts that were deleted in the table, and the comments, likes and bookmarks of deleted posts.
	Deleted Counts `json:"deleted"`
	// TakenBack is the number of likes that their users took back in the table.
	TakenBack int `json:"taken_back"`
	// Quoted is the number of imported posts without the post that they quote, because that post is gone.
	Quoted int `json:"quoted"`
}
