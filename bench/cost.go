package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fanfare/internal/ops/capacity"
)

// Cost is the time and the memory of a measurement.
type Cost struct {
	WallSeconds float64 `json:"wall_s"`
	// CPUSeconds is the user and system time of the measured process.
	CPUSeconds float64 `json:"cpu_s"`
	// Allocs and AllocBytes count the allocations of the Go heap in the measured process.
	Allocs     uint64 `json:"allocs"`
	AllocBytes uint64 `json:"alloc_bytes"`
	// Units is the number of measured units of work: deliveries, likes or messages.
	Units int64 `json:"units"`
	// LoadCPUSeconds is the user and system time of the load generator, if it is a separate process. The
	// load generator takes this time from the server on the same cores.
	LoadCPUSeconds float64 `json:"load_cpu_s,omitempty"`
}

func (c Cost) String() string {
	n := float64(max(1, c.Units))
	text := fmt.Sprintf("%s in %.2f s wall, %.2f s CPU; each %s µs CPU, %s allocations, %s bytes",
		capacity.Number(float64(c.Units)), c.WallSeconds, c.CPUSeconds,
		capacity.Number(c.cpuEach()), capacity.Number(float64(c.Allocs)/n), capacity.Number(float64(c.AllocBytes)/n))
	if c.LoadCPUSeconds > 0 {
		text += fmt.Sprintf("; the load generator %s µs CPU each", capacity.Number(c.LoadCPUSeconds*1e6/n))
	}
	return text
}

// cpuEach is the CPU time of one unit of work, in microseconds.
func (c Cost) cpuEach() float64 { return c.CPUSeconds * 1e6 / float64(max(1, c.Units)) }

// rate is the number of units of work in a second.
func (c Cost) rate() float64 { return float64(c.Units) / c.WallSeconds }

// plus adds up two consecutive measurements.
func (c Cost) plus(d Cost) Cost {
	return Cost{
		c.WallSeconds + d.WallSeconds, c.CPUSeconds + d.CPUSeconds,
		c.Allocs + d.Allocs, c.AllocBytes + d.AllocBytes, c.Units + d.Units,
		c.LoadCPUSeconds + d.LoadCPUSeconds,
	}
}

// usage is the CPU time and the memory that a process has used since its start.
type usage struct {
	at         time.Time
	cpu        time.Duration
	allocs     uint64
	allocBytes uint64
	// loader is the CPU time of the load generator, if it is another process.
	loader time.Duration
}

// since returns the cost of n units of work between the usage before and u.
func (u usage) since(before usage, n int64) Cost {
	return Cost{
		WallSeconds: u.at.Sub(before.at).Seconds(), CPUSeconds: (u.cpu - before.cpu).Seconds(),
		Allocs: u.allocs - before.allocs, AllocBytes: u.allocBytes - before.allocBytes, Units: n,
		LoadCPUSeconds: (u.loader - before.loader).Seconds(),
	}
}

// ownUsage returns the usage of this process.
func ownUsage() usage {
	var r syscall.Rusage
	var cpu time.Duration
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err == nil { // after an error the CPU time is 0
		cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Now(), cpu: cpu, allocs: m.Mallocs, allocBytes: m.TotalAlloc}
}

// cpuOf returns the CPU time of another process.
func cpuOf(pid int) (time.Duration, error) {
	p, err := statOf(pid)
	return p.cpu, err
}

// procStat is a process's parent, the process's CPU time, and the CPU time of its ended children.
type procStat struct {
	parent      int64
	cpu, reaped time.Duration
}

func statOf(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	// The name, in parentheses, may contain spaces. Of the fields after the name, the 2nd is the parent,
	// the 12th and 13th are utime and stime, and the next two are the times of ended children, all in
	// hundredths of a second.
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 15 {
		return procStat{}, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	var n [5]int64
	for i, field := range append(fields[11:15:15], fields[1]) {
		if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return procStat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	const tick = 10 * time.Millisecond
	return procStat{n[4], time.Duration(n[0]+n[1]) * tick, time.Duration(n[2]+n[3]) * tick}, nil
}

// cpuOfFamily returns the CPU time of a process and of all its present and ended children. It omits the
// children of the children.
func cpuOfFamily(pid int) (time.Duration, error) {
	p, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	sum := p.cpu + p.reaped
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, entry := range processes {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // the entry is not a process
		}
		// A process that has ended since the listing is not counted.
		if c, err := statOf(child); err == nil && c.parent == int64(pid) {
			sum += c.cpu
		}
	}
	return sum, nil
}

// peakMemory returns the peak of a process's resident memory, in bytes.
func peakMemory(pid int) (int64, error) { return memoryOf(pid, "VmHWM") }

// memoryOf returns a size in bytes from the kernel's status file of a process.
func memoryOf(pid int, name string) (int64, error) {
	file := fmt.Sprintf("/proc/%d/status", pid)
	kb, _, _ := strings.Cut(procField(file, name), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s in %s: %w", name, file, err)
	}
	return n * 1024, nil
}

// Latency is the distribution of times, in milliseconds.
type Latency struct {
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
	Count int64   `json:"count"`
}

// newHistogram returns a histogram of times from 1 microsecond to a minute, with three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 3)
}

// record adds a time. A time above a minute counts as a minute.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	// RecordValue returns no error for a value within the range.
	_ = h.RecordValue(min(max(d.Microseconds(), 1), time.Minute.Microseconds()))
}

func latencyOf(h *hdrhistogram.Histogram) *Latency {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return &Latency{
		P50: ms(h.ValueAtQuantile(50)), P90: ms(h.ValueAtQuantile(90)), P99: ms(h.ValueAtQuantile(99)),
		Max: ms(h.Max()), Count: h.TotalCount(),
	}
}
