package engine

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// about is what the engine says of itself.
type about struct{ name, version, timezone string }

// server answers HTTP with the engine.
type server struct {
	lib      *library
	args     []string // of every session
	about    about
	gate     *gate
	maxBody  int64
	password string // "" = whoever reaches the listener may ask
}

// tagSetting carries our name of a query, by which KILL finds it: the engine makes up the query's
// id itself and knows no settings of ours. It means nothing to a query that does not use the cache.
const tagSetting = "query_cache_tag"

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case ofPage(r):
		http.Error(w, "Pages in a browser may not ask the embedded engine.", http.StatusForbidden)
		return
	case r.URL.Path == "/ping", r.URL.Path == "/replicas_status",
		r.URL.Path == "/" && r.Method == http.MethodGet && !strings.Contains(r.URL.RawQuery, argQuery+"="):
		io.WriteString(w, "Ok.\n") //nolint:errcheck // the client has gone
		return
	case r.URL.Path != "/":
		http.Error(w, "There is no handle "+r.URL.Path+". Queries go to /, as ?query= or as the body of a POST.", http.StatusNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead && r.Method != http.MethodPut:
		w.Header().Set("Allow", "GET, HEAD, POST, PUT")
		http.Error(w, "Queries are sent with GET or POST.", http.StatusMethodNotAllowed)
		return
	}
	q, x := parseRequest(r)
	if x == nil && s.password != "" && subtle.ConstantTimeCompare([]byte(q.password), []byte(s.password)) != 1 {
		x = raise(codeAuthentication, "AUTHENTICATION_FAILED", "%s: authentication failed: password is incorrect", q.user)
	}
	if x != nil {
		sendException(w, w.Header(), x, s.about.version)
		return
	}
	defer q.body.Close() //nolint:errcheck // read to its end or given up
	s.answer(w, r, q)
}

// ofPage says whether a page in a browser has made the request, or one under a name of its own that
// points here. Without a password any page could, and a query can read and write the user's files.
func ofPage(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header.Get("Origin") != "" || site != "" && site != "none" || !isLoopback(host)
}

// answer runs one query.
func (s *server) answer(w http.ResponseWriter, r *http.Request, q *request) {
	body := &limitedBody{r: q.body, left: s.maxBody}
	st := parseStatement(q.sql)
	var x *exception
	if !st.insert || len(bytes.TrimSpace(st.inlineData(q.sql))) > 0 {
		if x = q.readAll(body); x == nil {
			st = parseStatement(q.sql)
		}
	}
	format := q.format
	if st.format != "" && !st.insert {
		format = st.format
	}
	a := newAnswer(w, q, s.about, format)
	if x == nil && len(bytes.TrimSpace(q.sql)) == 0 {
		x = raise(62, "SYNTAX_ERROR", "Empty query")
	}
	if x == nil {
		x = s.gate.enter(r.Context())
	}
	if x != nil {
		a.fail(x)
		return
	}
	sum, x := s.run(r.Context(), q, st, body, a)
	if x == nil {
		x = asException(a.end(sum))
	}
	if x != nil {
		a.fail(x)
	}
}

// readAll makes the rest of the body a part of the query, as ClickHouse does.
func (q *request) readAll(body io.Reader) *exception {
	rest, err := io.ReadAll(body)
	if err != nil {
		return asException(err)
	}
	if len(q.sql) > 0 && len(rest) > 0 {
		q.sql = append(q.sql, '\n')
	}
	q.sql = append(q.sql, rest...)
	return nil
}

// run gives the query a session of its own. The turn at the gate ends with the session.
func (s *server) run(ctx context.Context, q *request, st statement, body io.Reader, a *answer) (sum summary, x *exception) {
	defer s.gate.leave()
	ses, err := s.lib.session(s.args)
	if err != nil {
		return sum, raise(codeUnknownException, "UNKNOWN_EXCEPTION", "%s", err)
	}
	defer ses.close()
	tag := "hl-" + a.tag
	if x := q.prepare(ses, tag); x != nil {
		return sum, x
	}
	if st.insert {
		return s.insert(ses, q, st, body)
	}
	stop := s.killWhenDone(ctx, tag)
	defer stop()
	if st.streams(a.format) {
		streamed, sum, x := ses.stream(ctx, q.sql, a.format, a.take)
		if streamed {
			return sum, x
		}
	}
	return ses.query(q.sql, a.format, a.take)
}

// insert hands the data of an INSERT over. It is not cancelled once all the data is there: a block
// that is written but not yet in every materialized view would be half applied.
func (s *server) insert(ses *session, q *request, st statement, body io.Reader) (summary, *exception) {
	if inline := st.inlineData(q.sql); len(bytes.TrimSpace(inline)) > 0 {
		body = bytes.NewReader(inline)
	}
	if strings.EqualFold(st.format, "Native") {
		var err error
		if body, err = atRevisionZero(body, q.revision); err != nil {
			return summary{}, asException(err)
		}
	}
	return ses.insert(q.sql[:st.formatAt], st.format, body)
}

// prepare brings the session to where the query expects it.
func (q *request) prepare(ses *session, tag string) *exception {
	if q.database != "" && q.database != "default" {
		if x := ses.exec("USE `" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(q.database) + "`"); x != nil {
			return x
		}
	}
	if x := ses.set(paramPrefix, q.params); x != nil {
		return x
	}
	settings, readonly := q.settings, []pair(nil)
	if q.readonly {
		readonly = []pair{{"readonly", "2"}}
	}
	settings = slices.DeleteFunc(slices.Clone(settings), func(p pair) bool {
		if p.name != "readonly" {
			return false
		}
		readonly = []pair{p}
		return true
	})
	if x := ses.set("", append(settings, pair{tagSetting, tag})); x != nil {
		return x
	}
	return ses.set("", readonly)
}

// killWhenDone kills the query when its client goes. One KILL may come before the query is known to
// the engine, so it is repeated until the query has ended.
func (s *server) killWhenDone(ctx context.Context, tag string) (stop func()) {
	ended := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		ses, err := s.lib.session(s.args)
		if err != nil {
			return // the engine is ending, and the query with it
		}
		defer ses.close()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			ses.exec("KILL QUERY WHERE Settings[" + quote(tagSetting) + "] = " + quote(tag) + " ASYNC") //nolint:errcheck // tried again until it has ended
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(ended); <-finished }
}

// learn asks the engine who it is.
func (s *server) learn() error {
	ses, err := s.lib.session(s.args)
	if err != nil {
		return err
	}
	defer ses.close()
	_, x := ses.query([]byte("SELECT displayName(), version(), timezone()"), "TSVRaw", func(part []byte, _ summary) error {
		f := strings.Split(strings.TrimSpace(string(part)), "\t")
		if len(f) != 3 {
			return fmt.Errorf("the engine says %q of itself", part)
		}
		s.about = about{f[0], f[1], f[2]}
		return nil
	})
	if x != nil {
		return x
	}
	return nil
}

// limitedBody ends a body that is too large with an exception.
type limitedBody struct {
	r    io.Reader
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return 0, raise(codeTooManyBytes, "TOO_MANY_BYTES", "the request is larger than the embedded engine takes")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read the request: %w", err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = raise(codeIncorrectData, "INCORRECT_DATA", "the request was cut")
	}
	return n, err
}

func sortedNames(args url.Values) []string { return slices.Sorted(maps.Keys(args)) }
