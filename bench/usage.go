package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is what processes consumed.
type Usage struct {
	CPU     time.Duration // user and system, ended children included
	PeakRSS int64         // bytes; of a tree: the sum of the peaks
}

// selfUsage is this process, by getrusage.
func selfUsage() Usage {
	var self, children syscall.Rusage
	// Neither call can fail with these arguments.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &self)
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)
	u := Usage{PeakRSS: self.Maxrss}
	if runtime.GOOS == "linux" {
		u.PeakRSS *= 1024 // kilobytes there, bytes on the BSDs
	}
	for _, t := range []syscall.Timeval{self.Utime, self.Stime, children.Utime, children.Stime} {
		u.CPU += time.Duration(t.Nano())
	}
	return u
}

// userHz is the unit of /proc/PID/stat: 100 on every Linux that Go runs on.
const userHz = 100

// treeUsage sums over the processes and their descendants, by /proc. Where that does not
// exist (not Linux), or for processes that are gone, the sum is zero.
func treeUsage(roots []int) Usage {
	if len(roots) == 0 {
		return Usage{}
	}
	stats := readStats()
	var u Usage
	seen := map[int]bool{os.Getpid(): true} // this process counts by getrusage
	queue := append([]int(nil), roots...)
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		s, ok := stats[pid]
		if !ok || seen[pid] {
			continue
		}
		seen[pid] = true
		u.CPU += time.Duration(s.ticks) * time.Second / userHz
		u.PeakRSS += peakRSS(pid)
		for child, c := range stats {
			if c.parent == pid {
				queue = append(queue, child)
			}
		}
	}
	return u
}

type procStat struct {
	parent int
	ticks  int64 // user, system, and both of ended children
}

func readStats() map[int]procStat {
	out := map[int]procStat{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return out
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			continue
		}
		if s, ok := parseStat(raw); ok {
			out[pid] = s
		}
	}
	return out
}

// parseStat reads a line of /proc/PID/stat. The name in parentheses may hold anything, so
// fields count from the last one that closes.
func parseStat(raw []byte) (procStat, bool) {
	end := bytes.LastIndexByte(raw, ')')
	if end < 0 {
		return procStat{}, false
	}
	f := strings.Fields(string(raw[end+1:]))
	// f[0] is field 3 (state) of proc(5): ppid is 4, utime to cstime are 14 to 17.
	if len(f) < 15 {
		return procStat{}, false
	}
	var s procStat
	var err error
	if s.parent, err = strconv.Atoi(f[1]); err != nil {
		return procStat{}, false
	}
	for _, field := range f[11:15] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return procStat{}, false
		}
		s.ticks += n
	}
	return s, true
}

// peakRSS is VmHWM of a process, 0 when it is gone.
func peakRSS(pid int) int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kb * 1024
			}
		}
	}
	return 0
}
