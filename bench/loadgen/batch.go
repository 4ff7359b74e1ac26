package loadgen

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fasthttp"
)

// postBatch sends the events from n on as NDJSON and keeps the verdict of each. An answer
// that does not tell one verdict for each event says nothing about any of them.
func (w *worker) postBatch(req *fasthttp.Request, res *fasthttp.Response, n uint64, start time.Time) bool {
	count := w.g.cfg.Batch
	if most := w.g.cfg.Count; most > 0 {
		count = min(count, most-int(n))
	}
	w.body, w.hashes = w.body[:0], w.hashes[:0]
	for i := range count {
		from := len(w.body)
		w.body = w.g.bodies.Append(w.body, n+uint64(i), start)
		w.hashes = append(w.hashes, xxhash.Sum64(w.body[from:]))
		w.body = append(w.body, '\n')
	}
	req.SetBodyRaw(w.body)
	w.setKey(req, n)
	w.log.sent += count
	if err := w.g.client.Do(req, res); err != nil {
		w.log.errors[errorClass(err)] += count
		return false
	}
	done := time.Now()
	took := 0
	verdict := func(i, status int, id []byte) {
		w.log.byStatus[status]++
		if status == http.StatusAccepted {
			w.log.accept(id, entry{n: n + uint64(i), hash: w.hashes[i], start: start.UnixNano(), done: done.UnixNano()})
			took++
		}
	}
	switch status := res.StatusCode(); {
	case status == http.StatusAccepted && eachAccepted(res.Body(), count, verdict),
		status == http.StatusMultiStatus && eachVerdict(res.Body(), count, verdict):
		w.g.accepted.Add(int64(took))
	case status == http.StatusAccepted || status == http.StatusMultiStatus:
		w.log.errors["bad_batch_answer"] += count
	default:
		w.log.byStatus[status] += count
	}
	return true
}

// eachAccepted reads an answer in which everything was accepted by its ids alone, which come
// in the order of the items: decoding it would cost more than sending the batch. Nothing is
// reported unless there are count of them.
func eachAccepted(body []byte, count int, verdict func(i, status int, id []byte)) bool {
	if bytes.Count(body, idKey) != count || bytes.Contains(body, []byte(`"id":""`)) {
		return false
	}
	for i := range count {
		verdict(i, http.StatusAccepted, cutID(body))
		body = body[bytes.Index(body, idKey)+len(idKey):]
	}
	return true
}

// eachVerdict reads an answer with a verdict for each item.
func eachVerdict(body []byte, count int, verdict func(i, status int, id []byte)) bool {
	var answer struct {
		Items []struct {
			Index  int    `json:"index"`
			Status int    `json:"status"`
			ID     string `json:"id"`
		} `json:"items"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Items) != count {
		return false
	}
	for i, item := range answer.Items {
		if item.Index != i || item.Status == http.StatusAccepted && item.ID == "" {
			return false
		}
	}
	for i, item := range answer.Items {
		verdict(i, item.Status, []byte(item.ID))
	}
	return true
}
