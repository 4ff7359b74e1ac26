//go:build !linux

package engine

import "syscall"

func beNice(n int) error { return syscall.Setpriority(syscall.PRIO_PROCESS, 0, n) }

// childAttr: elsewhere the child ends when its standard input does.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
