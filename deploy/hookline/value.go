package main

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// The readers below take a value as YAML or an environment variable gives it. Their errors
// never repeat the value: it may be a secret in the wrong place.

func asString(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	default:
		return "", fmt.Errorf("must be one value, not a list or a section")
	}
}

// asList takes a YAML list or a comma-separated text. Empty means an empty list.
func asList(v any) ([]string, error) {
	items, ok := v.([]any)
	if !ok {
		if strs, ok := v.([]string); ok {
			return strs, nil
		}
		s, err := asString(v)
		if err != nil {
			return nil, fmt.Errorf("must be a list or a comma-separated text")
		}
		return splitList(s), nil
	}
	out := make([]string, 0, len(items))
	for i, item := range items {
		s, err := asString(item)
		if err != nil {
			return nil, fmt.Errorf("item %d must be a text", i)
		}
		out = append(out, strings.TrimSpace(s))
	}
	return out, nil
}

func splitList(s string) []string {
	var out []string
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func asBool(v any) (bool, error) {
	s, err := asString(v)
	if err != nil {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "1", "yes", "on":
		return true, nil
	case "false", "0", "no", "off", "":
		return false, nil
	}
	return false, fmt.Errorf("must be true or false")
}

func asInt(v any, low, high int64) (int64, error) {
	s, err := asString(v)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("must be a whole number from %d to %d", low, high)
	}
	if n < low || n > high {
		return 0, fmt.Errorf("must be from %d to %d, not %d", low, high, n)
	}
	return n, nil
}

func asFloat(v any, low, high float64) (float64, error) {
	s, err := asString(v)
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(f >= low && f <= high) {
		return 0, fmt.Errorf("must be a number from %g to %g", low, high)
	}
	return f, nil
}

// asDuration takes a Go duration with a unit, days too ("30d"), or 0.
func asDuration(v any) (time.Duration, error) {
	s, err := asString(v)
	if err != nil {
		return 0, err
	}
	s = strings.TrimSpace(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("must be a duration with a unit, such as 90s, 72h or 30d")
	}
	if d < 0 {
		return 0, fmt.Errorf("must not be negative")
	}
	return d, nil
}

// asSize takes a number of bytes, with or without a unit (KiB, MiB, GiB, kB, MB, GB).
func asSize(v any, low, high int64) (int64, error) {
	s, err := asString(v)
	if err != nil {
		return 0, err
	}
	s = strings.TrimSpace(s)
	unit := int64(1)
	for _, u := range []struct {
		name string
		size int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}} {
		if text, ok := strings.CutSuffix(s, u.name); ok {
			s, unit = strings.TrimSpace(text), u.size
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("must be a size in bytes, such as 262144 or 256KiB")
	}
	if n *= unit; n < low || n > high {
		return 0, fmt.Errorf("must be from %d to %d bytes", low, high)
	}
	return n, nil
}

// asListenAddr takes HOST:PORT.
func asListenAddr(v any) (string, error) {
	s, err := asString(v)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("must be HOST:PORT, such as 127.0.0.1:8080")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", fmt.Errorf("must end in a port from 0 to 65535")
	}
	return s, nil
}

// asSeeds takes broker addresses; a missing port is Kafka's 9092.
func asSeeds(v any) ([]string, error) {
	list, err := asList(v)
	if err != nil {
		return nil, err
	}
	for i, s := range list {
		if _, _, err := net.SplitHostPort(s); err != nil {
			s = net.JoinHostPort(strings.Trim(s, "[]"), "9092")
			list[i] = s
		}
		host, port, err := net.SplitHostPort(s)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || n == 0 || host == "" || strings.ContainsAny(host, " /") {
			return nil, fmt.Errorf("broker %d must be HOST:PORT", i+1)
		}
	}
	return list, nil
}

// asPrefixes takes CIDRs; a bare address is that one address.
func asPrefixes(v any) ([]netip.Prefix, error) {
	list, err := asList(v)
	if err != nil {
		return nil, err
	}
	out := make([]netip.Prefix, 0, len(list))
	for _, s := range list {
		if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
			out = append(out, netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("item %d must be a CIDR, such as 10.0.0.0/8", len(out)+1)
		}
		if p.Masked() != p {
			return nil, fmt.Errorf("item %d has bits set beyond its length; write %s", len(out)+1, p.Masked())
		}
		out = append(out, p)
	}
	return out, nil
}

func oneOf(v any, allowed ...string) (string, error) {
	s, err := asString(v)
	if err != nil {
		return "", err
	}
	for _, a := range allowed {
		if strings.EqualFold(s, a) {
			return a, nil
		}
	}
	return "", fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
}
