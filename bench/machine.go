package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Machine describes the machine of a run. An unknown fact is left empty.
type Machine struct {
	CPU      string  `json:"cpu"`
	CPUs     int     `json:"cpus"`
	MemoryMB int64   `json:"memory_mb"`
	OS       string  `json:"os"`
	Go       string  `json:"go"`
	MaxProcs int     `json:"gomaxprocs"`
	Disk     string  `json:"filesystem"`
	FreeMB   int64   `json:"disk_free_mb"`
	Load     float64 `json:"load_before"`
}

// thisMachine describes the machine, and the file system of dir.
func thisMachine(dir string) Machine {
	m := Machine{
		CPU: procField("/proc/cpuinfo", "model name"), CPUs: runtime.NumCPU(),
		OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), MaxProcs: runtime.GOMAXPROCS(0),
	}
	if kb, _, ok := strings.Cut(procField("/proc/meminfo", "MemTotal"), " "); ok {
		if n, err := strconv.ParseInt(kb, 10, 64); err == nil {
			m.MemoryMB = n / 1024
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.OS += " " + strings.TrimSpace(string(release))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		if first, _, ok := strings.Cut(string(load), " "); ok {
			if n, err := strconv.ParseFloat(first, 64); err == nil {
				m.Load = n
			}
		}
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err == nil {
		m.Disk = fileSystem(int64(fs.Type))                 //nolint:unconvert // narrower on some machines
		m.FreeMB = int64(fs.Bavail) * int64(fs.Bsize) >> 20 //nolint:unconvert // narrower elsewhere
	}
	return m
}

func fileSystem(magic int64) string {
	switch magic {
	case 0xEF53:
		return "ext4"
	case 0x58465342:
		return "xfs"
	case 0x9123683E:
		return "btrfs"
	case 0x01021994:
		return "tmpfs"
	case 0x794c7630:
		return "overlay"
	}
	return fmt.Sprintf("%#x", magic)
}

// procField returns the value of the first line "name: value" of a file in /proc.
func procField(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (m Machine) String() string {
	return fmt.Sprintf("%d x %s, %d MB, %s, %s, GOMAXPROCS %d, data on %s with %d MB free, load %.2f before",
		m.CPUs, m.CPU, m.MemoryMB, m.OS, m.Go, m.MaxProcs, m.Disk, m.FreeMB, m.Load)
}
