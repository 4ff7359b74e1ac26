package analytics

// position is where and how a partition is read on.
type position struct {
	from       int64 // the next batch begins here
	at         int64 // the first offset to read; above from when retention has taken what was there
	generation int

	// An announced batch comes first when replayEnd is above from: its rows are those of
	// [from, readEnd) that the log still has, its token is that of [from, replayEnd).
	replayEnd, readEnd int64
	announcedMs        int64

	recreated bool // the commit is of an earlier topic of this name
	trimmed   bool // records from the commit on were removed by retention
	lost      bool // the log has ended before the commit or the announced batch
}

// locate decides from the commit, its metadata and the ends of the log. A commit of -1 is none.
func locate(committed int64, n intent, id string, start, end int64) position {
	p := begin(committed, n, id, start, end)
	p.at = max(p.from, start)
	return p
}

func begin(committed int64, n intent, id string, start, end int64) position {
	switch {
	case committed < 0:
		return position{from: start}
	case n.Topic != "" && n.Topic != id:
		return position{from: start, recreated: true}
	case committed > end:
		// The rows of what was there are inserted. What is appended next gets used offsets.
		return position{from: end, generation: n.Generation + 1, lost: true}
	case n.End == 0:
		return position{from: max(committed, start), generation: n.Generation, trimmed: start > committed}
	}
	p := position{from: committed, generation: n.Generation, replayEnd: n.End, readEnd: min(n.End, end), announcedMs: n.AtMs,
		trimmed: start > committed, lost: end < n.End}
	if max(committed, start) < p.readEnd {
		return p
	}
	// Nothing of the announced batch is left.
	p.replayEnd, p.readEnd = 0, 0
	p.from = max(n.End, start)
	if p.lost {
		p.from = max(end, start)
		p.generation++
	}
	return p
}
