package engine

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// Exit codes of the child beside 0 and 1.
const (
	exitUsage = 2
	exitInUse = 3 // another engine has the data directory
)

// childConfig is the command line of the child.
type childConfig struct {
	dir, lib, addr  string
	password        string
	running, queue  int
	memory, maxBody int64
	nice            int
	lockWait        time.Duration
}

// Limits of the child. The engine's memory is bounded by memoryLimit; the Go side, which holds
// requests and answers in pieces, comes on top.
const (
	defaultRunning = 4
	defaultQueue   = 64
	queueWait      = 30 * time.Second
	memoryLimit    = 1 << 30
	goMemoryLimit  = 256 << 20
	bodyLimit      = 256 << 20
	lockWait       = 10 * time.Second
	stopWait       = 5 * time.Second
)

// readyLine is what the child prints, with its address, when it answers queries.
const readyLine = "ready "

// Main is the child process: it serves until its standard input ends, which it does with the
// parent however that dies. Its first line is the password, "" for none: other users of the machine
// can read a command line. It returns the exit code.
func Main(args []string) int {
	c := childConfig{}
	f := flag.NewFlagSet("engine", flag.ContinueOnError)
	f.StringVar(&c.dir, "data-dir", "", "where the engine keeps its data")
	f.StringVar(&c.lib, "lib", "", "libchdb.so")
	f.StringVar(&c.addr, "addr", "127.0.0.1:0", "address to listen on, loopback only")
	f.IntVar(&c.running, "running", defaultRunning, "queries at once")
	f.IntVar(&c.queue, "queue", defaultQueue, "queries that may wait")
	f.Int64Var(&c.memory, "memory", memoryLimit, "bytes that the engine may use")
	f.Int64Var(&c.maxBody, "max-body", bodyLimit, "bytes of a request")
	f.DurationVar(&c.lockWait, "lock-wait", lockWait, "how long another engine may take to leave the data directory")
	f.IntVar(&c.nice, "nice", 0, "priority that the process gives up")
	if err := f.Parse(args); err != nil {
		return exitUsage
	}
	stdin := bufio.NewReader(os.Stdin)
	line, err := stdin.ReadString('\n')
	if err == nil {
		c.password = strings.TrimSuffix(line, "\n")
		err = c.serve(stdin, os.Stdout)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, ErrInUse) {
		return exitInUse
	}
	return 1
}

// serve runs the engine and its HTTP listener until stdin ends.
func (c childConfig) serve(stdin io.Reader, stdout io.Writer) error {
	if host, _, err := net.SplitHostPort(c.addr); err != nil || !isLoopback(host) {
		return fmt.Errorf("the embedded engine listens on loopback only, not on %q", c.addr)
	}
	debug.SetMemoryLimit(goMemoryLimit)
	if err := beNice(c.nice); err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("make data directory of the engine: %w", err)
	}
	lock, err := lockDir(c.dir, c.lockWait)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the kernel drops the lock with the process
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close() //nolint:errcheck // closed by the server
	s, err := c.start()
	if err != nil {
		return err
	}
	// One session stays open: the engine ends with its last one.
	keep, err := s.lib.session(s.args)
	if err != nil {
		return err
	}
	defer keep.close()
	if err := s.learn(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s%s\n", readyLine, listener.Addr())
	return listenUntil(stdin, listener, s)
}

// start loads the library.
func (c childConfig) start() (*server, error) {
	lib, err := loadLibrary(c.lib)
	if err != nil {
		return nil, err
	}
	args, err := engineArgs(c.dir, c.memory)
	if err != nil {
		return nil, err
	}
	return &server{lib: lib, args: args, gate: newGate(c.running, c.queue, queueWait), maxBody: c.maxBody, password: c.password}, nil
}

// listenUntil serves until stdin ends, and then lets what runs end for a moment.
func listenUntil(stdin io.Reader, listener net.Listener, s *server) error {
	base, abort := context.WithCancel(context.Background())
	defer abort()
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 20,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve(listener) }()
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, stdin) //nolint:errcheck // an error is an end too
		close(ended)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ended:
	}
	ctx, cancel := context.WithTimeout(base, stopWait)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		abort() // the queries that still run are killed
		return errors.Join(fmt.Errorf("queries still ran after %s: %w", stopWait, err), h.Close())
	}
	return nil
}

// settingsFile keeps the engine small: it is written at every start.
const settingsFile = "engine.xml"

// engineArgs is the command line of the engine. What stands in the file holds for all of it, the
// rest for one session: a query may ask for less or more, the memory of all of them is bounded.
func engineArgs(dir string, memory int64) ([]string, error) {
	path := filepath.Join(dir, settingsFile)
	if err := os.WriteFile(path, fmt.Appendf(nil, engineXML, memory), 0o600); err != nil {
		return nil, fmt.Errorf("write settings of the engine: %w", err)
	}
	return []string{
		"clickhouse", "--config-file=" + path, "--path=" + filepath.Join(dir, "db"),
		"--max_threads=2", "--max_insert_threads=1", "--max_memory_usage=" + fmt.Sprint(memory/2),
		"--max_bytes_before_external_group_by=" + fmt.Sprint(memory/8), "--max_bytes_before_external_sort=" + fmt.Sprint(memory/8),
		"--max_result_bytes=" + fmt.Sprint(bodyLimit), "--async_insert=0",
	}, nil
}

const engineXML = `<clickhouse>
  <max_server_memory_usage>%d</max_server_memory_usage>
  <mark_cache_size>33554432</mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <index_mark_cache_size>8388608</index_mark_cache_size>
  <background_pool_size>2</background_pool_size>
  <background_schedule_pool_size>4</background_schedule_pool_size>
  <background_common_pool_size>2</background_common_pool_size>
  <background_move_pool_size>1</background_move_pool_size>
  <background_fetches_pool_size>1</background_fetches_pool_size>
  <background_message_broker_schedule_pool_size>1</background_message_broker_schedule_pool_size>
  <background_distributed_schedule_pool_size>1</background_distributed_schedule_pool_size>
  <background_buffer_flush_schedule_pool_size>1</background_buffer_flush_schedule_pool_size>
  <tables_loader_foreground_pool_size>1</tables_loader_foreground_pool_size>
  <tables_loader_background_pool_size>1</tables_loader_background_pool_size>
</clickhouse>
`

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
