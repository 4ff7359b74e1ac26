package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hookline/hookline/ingest/event"
)

// execTimeout bounds a secret command: a vault that hangs must not hang a start for ever.
const execTimeout = 10 * time.Second

// maxSecretBytes bounds what a secret file or command may give.
const maxSecretBytes = 1 << 20

// secretRef says whether s names a place instead of being the secret.
func secretRef(s string) bool {
	return strings.HasPrefix(s, "file:") || strings.HasPrefix(s, "env:") || strings.HasPrefix(s, "exec:")
}

// resolveSecret returns the secret behind s: s itself, or what file:PATH, env:NAME or
// exec:COMMAND hold. White space at its end is not part of it. Errors never hold the secret.
func resolveSecret(s string) (string, error) {
	kind, rest, _ := strings.Cut(s, ":")
	if !secretRef(s) {
		return s, nil
	}
	var (
		raw []byte
		err error
	)
	switch kind {
	case "file":
		raw, err = readSecretFile(rest)
	case "env":
		text, ok := os.LookupEnv(rest)
		if !ok {
			return "", fmt.Errorf("env:%s is not set", rest)
		}
		raw = []byte(text)
	case "exec":
		raw, err = runSecretCommand(rest)
	}
	if err != nil {
		return "", err
	}
	out := strings.TrimSpace(string(raw))
	if out == "" {
		return "", fmt.Errorf("the %s: reference gives nothing", kind)
	}
	return out, nil
}

func readSecretFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	if info.Size() > maxSecretBytes {
		return nil, fmt.Errorf("read secret: %s is larger than 1 MiB", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	return raw, nil
}

// runSecretCommand runs command with the shell and returns what it prints. What it says on
// stderr is left out of the error: it may repeat the secret.
func runSecretCommand(command string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), execTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.WaitDelay = time.Second
	// A group of its own, so that what the shell has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out := bounded{full: cancel}
	cmd.Stdout = &out
	err := cmd.Run()
	switch {
	case out.over:
		return nil, errors.New("secret command gave more than 1 MiB")
	case ctx.Err() != nil:
		return nil, fmt.Errorf("secret command did not end within %s", execTimeout)
	case err != nil:
		return nil, fmt.Errorf("secret command failed: %w", err)
	}
	return out.buf.Bytes(), nil
}

// bounded is a buffer that ends its writer instead of growing without end.
type bounded struct {
	buf  bytes.Buffer // not embedded: its ReadFrom knows no bound
	over bool
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > maxSecretBytes {
		b.over = true
		b.full()
		return 0, io.ErrShortWrite
	}
	return b.buf.Write(p)
}

func asSecret(v any) (string, error) {
	s, err := asString(v)
	if err != nil {
		return "", err
	}
	return resolveSecret(strings.TrimSpace(s))
}

// asSecretKeys takes one sealing key or several (the first seals, the others still open).
func asSecretKeys(v any) ([]string, error) {
	list, err := asSecretItems(v)
	if err != nil {
		return nil, err
	}
	var out []string
	for i, s := range list {
		text, err := resolveSecret(s)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		out = append(out, splitList(text)...)
	}
	return out, nil
}

// asSecretItems splits v like asList, but leaves an exec: text whole, since a command may
// hold commas.
func asSecretItems(v any) ([]string, error) {
	if s, ok := v.(string); ok && strings.HasPrefix(strings.TrimSpace(s), "exec:") {
		return []string{strings.TrimSpace(s)}, nil
	}
	return asList(v)
}

// asAPIKeys takes tenant:key items; an item may also be @FILE or a reference to a text of
// such items, and a key may be a reference or sha256=HEX.
func asAPIKeys(v any, get resolver) ([]apiKey, error) {
	items, err := asSecretItems(v)
	if err != nil {
		return nil, err
	}
	var out []apiKey
	for i, item := range items {
		if path, ok := strings.CutPrefix(item, "@"); ok {
			item = "file:" + path
		}
		texts := []string{item}
		if secretRef(item) {
			text, err := get(item)
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
			texts = splitKeyFile(text)
		}
		for _, text := range texts {
			k, err := parseAPIKey(text, get)
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
			if slices.ContainsFunc(out, k.same) {
				return nil, fmt.Errorf("item %d: a key of tenant %s is there twice", i, k.Tenant)
			}
			out = append(out, k)
		}
	}
	return out, nil
}

// same says whether two entries are one key; of two tenants with one key, nobody could say
// whose event it is.
func (k apiKey) same(other apiKey) bool { return k.hash() == other.hash() }

// hash is the lower-case hex of the key's SHA-256.
func (k apiKey) hash() string {
	if k.SHA256 != "" {
		return k.SHA256
	}
	sum := sha256.Sum256([]byte(k.Key))
	return hex.EncodeToString(sum[:])
}

// splitKeyFile reads one item a line or several with commas; lines that begin with # are notes.
func splitKeyFile(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			out = append(out, splitList(line)...)
		}
	}
	return out
}

func parseAPIKey(text string, get resolver) (apiKey, error) {
	text, options := cutKeyOptions(text)
	k, err := parseBareAPIKey(text, get)
	k.Options = options
	return k, err
}

// cutKeyOptions takes "rate=N" and "burst=N" from the end of a key; ingest reads them. A
// command keeps its words.
func cutKeyOptions(text string) (key, options string) {
	_, secret, _ := strings.Cut(text, ":")
	if strings.HasPrefix(secret, "exec:") {
		return text, ""
	}
	words := strings.Fields(text)
	n := len(words)
	for n > 1 && (strings.HasPrefix(words[n-1], "rate=") || strings.HasPrefix(words[n-1], "burst=")) {
		n--
	}
	if n == len(words) {
		return text, ""
	}
	return strings.Join(words[:n], " "), strings.Join(words[n:], " ")
}

func parseBareAPIKey(text string, get resolver) (apiKey, error) {
	tenant, key, ok := strings.Cut(text, ":")
	if !ok || key == "" {
		return apiKey{}, errors.New("must be tenant:key or tenant:sha256=HEX")
	}
	if !event.ValidTenant(tenant) {
		return apiKey{}, errors.New("tenant must be 1 to 64 of [A-Za-z0-9_-]")
	}
	key, err := get(key)
	if err != nil {
		return apiKey{}, err
	}
	if sum, ok := strings.CutPrefix(key, "sha256="); ok {
		raw, err := hex.DecodeString(sum)
		if err != nil || len(raw) != 32 {
			return apiKey{}, errors.New("sha256= must be followed by 64 hex digits")
		}
		return apiKey{Tenant: tenant, SHA256: strings.ToLower(sum)}, nil
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return apiKey{}, errors.New("key must be visible ASCII")
		}
	}
	return apiKey{Tenant: tenant, Key: key}, nil
}
