package datadir

import "golang.org/x/sys/unix"

func printOf(file string) (Print, error) {
	var s unix.Stat_t
	if err := unix.Stat(file, &s); err != nil {
		return Print{}, err
	}
	boot, _ := unix.Sysctl("kern.bootsessionuuid") // without it each start is on another boot
	return Print{Born: s.Btim.Nano(), Inode: s.Ino, Device: uint64(s.Dev), Boot: boot}, nil
}
