package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// admin speaks to the admin API.
type admin struct {
	base, token string
	client      *http.Client
}

func newAdmin(s Stack) *admin {
	return &admin{base: s.AdminURL(), token: s.AdminToken(), client: &http.Client{Timeout: 15 * time.Second}}
}

// endpointSpec is what the harness sets of an endpoint; the rest is default.
type endpointSpec struct {
	ID          string   `json:"id"`
	Tenant      string   `json:"tenant"`
	URL         string   `json:"url"`
	Events      []string `json:"events"`
	MaxInFlight int      `json:"max_in_flight,omitempty"`
}

// create makes an endpoint and returns its secret.
func (a *admin) create(ctx context.Context, e endpointSpec) (secret string, err error) {
	var made struct {
		Secret string `json:"secret"`
	}
	if err := a.do(ctx, http.MethodPost, "/v1/endpoints", e, http.StatusCreated, &made); err != nil {
		return "", fmt.Errorf("create endpoint %s: %w", e.ID, err)
	}
	if made.Secret == "" {
		return "", fmt.Errorf("create endpoint %s: the answer holds no secret", e.ID)
	}
	return made.Secret, nil
}

func (a *admin) remove(ctx context.Context, id string) error {
	if err := a.do(ctx, http.MethodDelete, "/v1/endpoints/"+url.PathEscape(id), nil, 0, nil); err != nil {
		return fmt.Errorf("delete endpoint %s: %w", id, err)
	}
	return nil
}

// deadLetters calls fn with every dead letter of an endpoint.
func (a *admin) deadLetters(ctx context.Context, endpointID string, fn func(eventID string)) error {
	cursor := ""
	for {
		var page struct {
			Items []struct {
				EventID string `json:"event_id"`
			} `json:"items"`
			Next string `json:"next"`
		}
		q := url.Values{"endpoint": {endpointID}, "limit": {"1000"}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		if err := a.do(ctx, http.MethodGet, "/v1/dead-letters?"+q.Encode(), nil, http.StatusOK, &page); err != nil {
			return fmt.Errorf("list dead letters of %s: %w", endpointID, err)
		}
		for _, item := range page.Items {
			fn(item.EventID)
		}
		if page.Next == "" || page.Next == cursor {
			return nil
		}
		cursor = page.Next
	}
}

// do sends one request; want 0 takes any 2xx.
func (a *admin) do(ctx context.Context, method, path string, in any, want int, out any) (err error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != want && (want != 0 || res.StatusCode/100 != 2) {
		return fmt.Errorf("%s %s: status %d: %s", method, path, res.StatusCode, firstLine(raw))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

// firstLine is a short piece of an answer for an error.
func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	return string(line[:min(len(line), 300)])
}
