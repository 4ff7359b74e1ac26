package engine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// blockInfo is how a Native block begins at any revision but 0. As a block of revision 0 it would
// be one without rows whose only column has two bytes that are not text as its name.
var blockInfo = []byte{1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0}

// decoderBuffer is at least what the decoder would give itself.
const decoderBuffer = 128 << 10

// reencode turns the Native blocks in data, written at revision from, into those of revision to and
// appends them to out. Blocks without rows fall out: the state of some column types is not written
// for them, and only the first block of an answer could say something by its columns.
func reencode(out *chproto.Buffer, r io.Reader, from, to uint64) (blocks int, err error) {
	// The decoder takes a buffer of this size for its own, so that a look ahead is a look at what it
	// reads next: only there is the end of the data told from a block that was cut.
	buffer := bufio.NewReaderSize(r, decoderBuffer)
	reader := chproto.NewReader(buffer)
	for {
		if _, err := buffer.Peek(1); errors.Is(err, io.EOF) {
			return blocks, nil
		}
		block := proto.Block{ServerContext: &column.ServerContext{}}
		if err := decode(&block, reader, from); err != nil {
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

// decode reads one block. The driver's decoder is made for what a server sends: it panics over some
// blocks that no server makes, and it believes their counts, so a forged one may cost the child its
// life, which its parent then gives back.
func decode(block *proto.Block, r *chproto.Reader, revision uint64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the block makes no sense: %v", p)
		}
	}()
	return block.Decode(r, revision)
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
