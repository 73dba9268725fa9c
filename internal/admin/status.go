package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fanfare/internal/pair"
)

// About names a process.
type About struct {
	Version string    `json:"version"`
	Roles   []string  `json:"roles"`
	Since   time.Time `json:"since"`
}

// Status is one look at a process. The numbers are metrics of docs/METRICS.md.
type Status struct {
	About

	// Health is the answer of /readyz, absent on a standby.
	Health *healthBody  `json:"health,omitempty"`
	Queues []QueueState `json:"queues,omitempty"`
	// MemoryBytes is the resident memory.
	MemoryBytes float64      `json:"memory_bytes"`
	Disks       []DiskState  `json:"disks,omitempty"`
	Archive     *ArchiveLag  `json:"archive,omitempty"`
	Pair        *pair.Status `json:"pair,omitempty"`
}

// QueueState is the number of messages of a topic, by their state.
type QueueState struct {
	Topic    string  `json:"topic"`
	Ready    float64 `json:"ready"`
	InFlight float64 `json:"in_flight"`
	Delayed  float64 `json:"delayed"`
	Dead     float64 `json:"dead"`
}

// DiskState is the disk of an embedded store.
type DiskState struct {
	Store      string  `json:"store"`
	FreeBytes  float64 `json:"free_bytes"`
	SizeBytes  float64 `json:"size_bytes"`
	NearlyFull bool    `json:"nearly_full"`
}

// ArchiveLag is the distance between the stores and their archive.
type ArchiveLag struct {
	LagSeconds float64 `json:"lag_seconds"`
	LagBytes   float64 `json:"lag_bytes"`
	BaseAge    float64 `json:"base_age_seconds"`
}

// ShowStatus returns one look at a process.
func ShowStatus() Op[None, Status] {
	return Op[None, Status]{
		Route: "GET /admin/status", Has: func(d Domain) bool { return d.About.Version != "" },
		Run: func(ctx context.Context, d Domain, _ None) (Status, error) { return d.status(ctx), nil },
		Command: Command[None, Status]{
			Words: Words{Use: "status", Short: "Show the health, queues, disk, archive and pair of a running process", Long: statusOfProcessHelp, AtAddress: true},
			Text:  Status.text,
		},
	}
}

const statusOfProcessHelp = `Asks the admin address of a running fanfare up, api, fanout or likeagg. A healthy process has health "ready", few messages that wait,
and no dead letters.`

func (d Domain) status(ctx context.Context) Status {
	s := Status{About: d.About}
	if d.health != nil {
		s.Health = new(d.health.state(ctx))
	}
	if d.Pair != nil {
		s.Pair = new(d.Pair.PairStatus())
	}
	if d.metrics == nil {
		return s
	}
	families, _ := d.metrics.Gather() // the rest is there even if one collector failed, and Health names the failure
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			s.add(family.GetName(), labels, m.GetGauge().GetValue())
		}
	}
	return s
}

// add adds the value of a gauge.
func (s *Status) add(name string, labels map[string]string, value float64) {
	switch name {
	case "fanfare_queue_depth":
		q := entry(&s.Queues, func(q QueueState) bool { return q.Topic == labels["topic"] })
		q.Topic = labels["topic"]
		if at := map[string]*float64{"ready": &q.Ready, "in_flight": &q.InFlight, "delayed": &q.Delayed, "dead": &q.Dead}[labels["state"]]; at != nil {
			*at = value
		}
	case "process_resident_memory_bytes":
		s.MemoryBytes = value
	case "fanfare_disk_free_bytes", "fanfare_disk_size_bytes", "fanfare_disk_nearly_full":
		d := entry(&s.Disks, func(d DiskState) bool { return d.Store == labels["store"] })
		d.Store = labels["store"]
		switch name {
		case "fanfare_disk_free_bytes":
			d.FreeBytes = value
		case "fanfare_disk_size_bytes":
			d.SizeBytes = value
		default:
			d.NearlyFull = value > 0
		}
	case "fanfare_archive_lag_seconds", "fanfare_archive_lag_bytes", "fanfare_archive_base_age_seconds":
		if s.Archive == nil {
			s.Archive = new(ArchiveLag)
		}
		*map[string]*float64{
			"fanfare_archive_lag_seconds": &s.Archive.LagSeconds, "fanfare_archive_lag_bytes": &s.Archive.LagBytes, "fanfare_archive_base_age_seconds": &s.Archive.BaseAge,
		}[name] = value
	}
}

// entry returns the entry of a list that is right, and adds one if there is none.
func entry[T any](list *[]T, right func(T) bool) *T {
	i := slices.IndexFunc(*list, right)
	if i < 0 {
		var none T
		i, *list = len(*list), append(*list, none)
	}
	return &(*list)[i]
}

// text returns the status for people, one fact a line.
func (s Status) text() string {
	var lines []string
	add := func(what, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%-18s %s", what, fmt.Sprintf(format, args...)))
	}
	add("version", "%s", s.Version)
	add("roles", "%s", strings.Join(s.Roles, ", "))
	add("since", "%s", s.Since.UTC().Format(time.RFC3339))
	if h := s.Health; h != nil {
		add("health", "%s", strings.Join(slices.Concat([]string{h.Status}, h.Failing, h.Warnings), ", "))
	}
	for _, q := range s.Queues {
		add("queue "+q.Topic, "%.0f ready, %.0f in flight, %.0f delayed, %.0f dead letters", q.Ready, q.InFlight, q.Delayed, q.Dead)
	}
	add("memory", "%.0f MB", s.MemoryBytes/1e6)
	for _, d := range s.Disks {
		add("disk of the "+d.Store, "%.1f of %.1f GB free%s", d.FreeBytes/1e9, d.SizeBytes/1e9, map[bool]string{true: ", nearly full"}[d.NearlyFull])
	}
	if a := s.Archive; a != nil {
		add("archive", "%s behind (%.1f MB), base %s old", seconds(a.LagSeconds), a.LagBytes/1e6, seconds(a.BaseAge))
	}
	if s.Pair != nil {
		add("pair", "%s", describe(*s.Pair))
	}
	return strings.Join(lines, "\n")
}

func seconds(n float64) time.Duration {
	return time.Duration(n * float64(time.Second)).Round(100 * time.Millisecond)
}
