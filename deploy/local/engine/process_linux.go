package engine

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// beNice lowers the priority of every thread: on Linux it belongs to threads, and those that the
// engine starts later inherit it.
func beNice(n int) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list own threads: %w", err)
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		// A thread that has just ended is no thread to slow down.
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, tid, n); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("lower own priority: %w", err)
		}
	}
	return nil
}

// childAttr makes the kernel kill the child with its parent, whatever state the child is in. It
// watches the thread that started the child, so that thread must live as long.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
