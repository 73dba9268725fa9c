package config

import (
	"fmt"
	"time"

	"fanfare/internal/objects"
)

// These are the smallest sizes of the archive's settings.
const (
	leastBaseLog = 64 << 20
	leastSpool   = 64 << 20
)

// checkArchive returns the faults of the archive's settings.
func (c Config) checkArchive() (faults []string) {
	_, err := objects.Parse(c.Archive)
	for _, rule := range []struct {
		bad   bool
		fault string
	}{
		{c.Engine == EngineAWS && c.Archive != "", "FANFARE_ARCHIVE: it is of the embedded engine: on aws remove it, and use the point-in-time recovery of DynamoDB (docs/BACKUP.md)"},
		{c.Archive != "" && err != nil, fmt.Sprintf("FANFARE_ARCHIVE: %v", err)},
		{c.ArchiveInterval() < time.Second || c.ArchiveInterval() > time.Minute, fmt.Sprintf("FANFARE_ARCHIVE_EVERY: %s is not between 1s and 1m", c.ArchiveInterval())},
		{c.ArchiveKept() < 2*time.Hour || c.ArchiveKept() > 10*365*24*time.Hour, fmt.Sprintf("FANFARE_ARCHIVE_KEEP: %s is not between 2h and 87600h", c.ArchiveKept())},
		{c.BaseLog() < leastBaseLog, "FANFARE_ARCHIVE_BASE_LOG: it is below 64MiB, and a base costs more than that"},
		{c.Spool() < leastSpool, "FANFARE_STREAM_SPOOL: it is below 64MiB, and a short outage of the archive would make a gap"},
	} {
		if rule.bad {
			faults = append(faults, rule.fault)
		}
	}
	for _, name := range c.besideArchive() {
		if c.Engine == EngineAWS {
			faults = append(faults, name+": it is of the embedded engine: remove it")
		}
	}
	return faults
}

// besideArchive returns the names of the settings that are set and that FANFARE_ARCHIVE needs.
func (c Config) besideArchive() (names []string) {
	for _, setting := range []struct {
		is   bool
		name string
	}{
		{c.ArchiveEvery != nil, "FANFARE_ARCHIVE_EVERY"}, {c.ArchiveKeep != nil, "FANFARE_ARCHIVE_KEEP"},
		{c.ArchiveBaseLog != nil, "FANFARE_ARCHIVE_BASE_LOG"}, {c.StreamSpool != nil, "FANFARE_STREAM_SPOOL"},
	} {
		if setting.is {
			names = append(names, setting.name)
		}
	}
	return names
}
