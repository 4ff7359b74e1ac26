package engine

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// Codes of ClickHouse's exceptions that this package itself raises or looks for.
const (
	codeBadArguments     = 36
	codeNotImplemented   = 48
	codeUnknownSetting   = 115
	codeTooManyQueries   = 202
	codeTooManyBytes     = 307
	codeCancelled        = 394
	codeAuthentication   = 516
	codeIncorrectData    = 117
	codeUnknownException = 1002
)

// exception is an error in ClickHouse's form.
type exception struct {
	code int
	text string
}

func (e *exception) Error() string { return e.text }

func raise(code int, name, format string, args ...any) *exception {
	return &exception{code, fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", code, fmt.Sprintf(format, args...), name)}
}

var exceptionCode = regexp.MustCompile(`Code: (\d+)\.`)

// engineException reads the error text of the engine; nil when there is none.
func engineException(text string) *exception {
	if text == "" {
		return nil
	}
	text = strings.TrimSpace(text)
	m := exceptionCode.FindStringSubmatch(text)
	if m == nil {
		return raise(codeUnknownException, "UNKNOWN_EXCEPTION", "%s", text)
	}
	code, err := strconv.Atoi(m[1])
	if err != nil {
		code = codeUnknownException
	}
	return &exception{code, text[strings.Index(text, m[0]):]}
}

// full is the text as a server sends it.
func (e *exception) full(version string) string {
	suffix := " (version " + version + ")"
	return strings.TrimSuffix(e.text, suffix) + suffix + "\n"
}

// status is the HTTP status that ClickHouse's HTTP interface gives to the code.
func (e *exception) status() int {
	switch e.code {
	case 194:
		return http.StatusUnauthorized
	case 192, 193, codeAuthentication:
		return http.StatusForbidden
	case codeBadArguments, 6, 26, 27, 38, 41, 42, 43, 44, 53, 62, 72, codeIncorrectData, 168, 321, 350, 427, 456, 457:
		return http.StatusBadRequest
	case 46, 47, 50, 56, 60, 63, 73, 78, 81, 120, codeUnknownSetting, 336:
		return http.StatusNotFound
	case codeTooManyBytes:
		return http.StatusRequestEntityTooLarge
	case codeNotImplemented:
		return http.StatusNotImplemented
	case 159:
		return http.StatusRequestTimeout
	case codeTooManyQueries, 209, 439:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

const exceptionMark = "__exception__"

// midStream is how an exception is told to a client that already has a part of the answer.
func (e *exception) midStream(version, tag string) string {
	text := e.full(version)
	return fmt.Sprintf("\r\n%s\r\n%s\r\n%s%d %s\r\n%s\r\n", exceptionMark, tag, text, len(text), tag, exceptionMark)
}
