package engine

import (
	"bytes"
	"errors"
	"io"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// blockInfo is how a Native block begins at any revision but 0. As a block of revision 0 it would
// be one without rows whose only column has two bytes that are not text as its name.
var blockInfo = []byte{1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0}

// reencode turns the Native blocks in data, written at revision from, into those of revision to and
// appends them to out. Blocks without rows fall out: the state of some column types is not written
// for them, and only the first block of an answer could say something by its columns.
func reencode(out *chproto.Buffer, r io.Reader, from, to uint64) (blocks int, err error) {
	reader := chproto.NewReader(r)
	for {
		block := proto.Block{ServerContext: &column.ServerContext{}}
		if err := block.Decode(reader, from); err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && len(block.Columns) == 0 {
				return blocks, nil
			}
			return blocks, err
		}
		if block.Rows() == 0 {
			continue
		}
		if err := block.Encode(out, to); err != nil {
			return blocks, err
		}
		blocks++
	}
}

// atRevisionZero returns body as the engine reads it. Drivers write inserts over HTTP at revision 0
// whatever they ask for in answers, and then nothing has to be done; other blocks say so by how
// they begin.
func atRevisionZero(body io.Reader, revision uint64) (io.Reader, error) {
	head := make([]byte, len(blockInfo))
	n, err := io.ReadFull(body, head)
	head = head[:n]
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	body = io.MultiReader(bytes.NewReader(head), body)
	if !bytes.Equal(head, blockInfo) {
		return body, nil
	}
	var out chproto.Buffer
	if _, err := reencode(&out, body, max(revision, 1), 0); err != nil {
		return nil, raise(codeIncorrectData, "INCORRECT_DATA", "a Native block of revision %d cannot be read: %v", revision, err)
	}
	return bytes.NewReader(out.Buf), nil
}
