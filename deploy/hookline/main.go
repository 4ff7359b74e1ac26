package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // only to silence it
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/hookline/hookline/deploy/local/engine"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// net/http and fasthttp write to the standard logger what peers send them, and that may
	// hold the path of a webhook URL. Everything of ours goes through slog.
	log.SetOutput(io.Discard)
	if len(os.Args) > 1 && os.Args[1] == engineCommand {
		os.Exit(engine.Main(os.Args[2:]))
	}
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	os.Exit(a.run(os.Args[1:]))
}

// app is the program's surroundings, so that tests can stand in for them.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string
	cli     *cli
	ctx     context.Context // done at the first signal
}

// usageError is a mistake in how the command was called.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errSilent ends a command that has already said what is wrong.
var errSilent = errors.New("failed")

// helpExit is thrown by kong's --help, which has printed and wants to end the program.
type helpExit int

// run does one command and returns the exit code.
func (a *app) run(args []string) (code int) {
	defer func() {
		if r := recover(); r != nil {
			exit, ok := r.(helpExit)
			if !ok {
				panic(r)
			}
			code = int(exit)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a.ctx = ctx
	a.cli = &cli{}
	parser, err := kong.New(a.cli,
		kong.Name("hookline"),
		kong.Description("Carries events to webhook endpoints, at least once, and shows how every attempt went."),
		kong.Writers(a.stdout, a.stderr),
		kong.Exit(func(code int) { panic(helpExit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		panic("BUG: command line: " + err.Error())
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		return a.fail(usageError{fmt.Errorf("%w; see hookline --help", err)})
	}
	stop := a.catchSignals(cancel)
	defer stop()
	if err := command.Run(a); err != nil {
		return a.fail(err)
	}
	return exitOK
}

// fail prints err as one line and returns the exit code that it means.
func (a *app) fail(err error) int {
	code := exitFailed
	if _, usage := errors.AsType[usageError](err); usage {
		code = exitUsage
	}
	if !errors.Is(err, errSilent) {
		text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
		fmt.Fprintln(a.stderr, "hookline: "+text)
	}
	return code
}

// catchSignals cancels at the first SIGINT or SIGTERM and ends the program at the second:
// whoever asks twice does not want to wait for the drain, and nothing is lost by it.
func (a *app) catchSignals(cancel context.CancelFunc) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		select {
		case <-signals:
			fmt.Fprintln(a.stderr, "hookline: second signal; exiting at once")
			os.Exit(exitFailed)
		case <-done:
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

// getenv looks a variable up in the surroundings, the last one winning as in a shell.
func (a *app) getenv(name string) (string, bool) {
	value, ok := "", false
	for _, kv := range a.environ {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			value, ok = v, true
		}
	}
	return value, ok
}
