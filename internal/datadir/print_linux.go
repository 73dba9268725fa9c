package datadir

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func printOf(file string) (Print, error) {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, file, 0, unix.STATX_INO|unix.STATX_BTIME, &s); err != nil {
		return Print{}, err
	}
	p := Print{Inode: s.Ino, Device: unix.Mkdev(s.Dev_major, s.Dev_minor)}
	if s.Mask&unix.STATX_BTIME != 0 {
		p.Born = s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil { // without it each start is on another boot
		p.Boot = strings.TrimSpace(string(boot))
	}
	return p, nil
}
