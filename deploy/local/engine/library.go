package engine

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is the C interface of libchdb.so. Handles are numbers: the memory behind them is not
// Go's. Calls block their thread for as long as the engine needs.
type library struct {
	version       func() string
	signals       func(enabled int32)
	connect       func(argc int32, argv unsafe.Pointer) uintptr
	closeConn     func(conn uintptr)
	query         func(conn uintptr, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr) uintptr
	stream        func(conn uintptr, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr) uintptr
	fetch         func(conn, stream uintptr) uintptr
	cancelStream  func(conn, stream uintptr)
	destroyResult func(result uintptr)
	insert        func(conn uintptr, sql unsafe.Pointer, sqlLen uintptr, format unsafe.Pointer, formatLen uintptr) uintptr
	appendInsert  func(insert uintptr, data unsafe.Pointer, n uintptr) int32
	doneInsert    func(insert uintptr) uintptr
	cancelInsert  func(insert uintptr)
	insertError   func(insert uintptr) uintptr
	destroyInsert func(insert uintptr)
	buffer        func(result uintptr) uintptr
	length        func(result uintptr) uintptr
	resultError   func(result uintptr) uintptr
	elapsed       func(result uintptr) float64
	rowsRead      func(result uintptr) uint64
	bytesRead     func(result uintptr) uint64
	storageRows   func(result uintptr) uint64
	storageBytes  func(result uintptr) uint64
	rowsWritten   func(result uintptr) uint64
	bytesWritten  func(result uintptr) uint64
}

// loadLibrary opens the library and finds every function, or says which is missing.
func loadLibrary(path string) (*library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	l := &library{}
	for name, fn := range map[string]any{
		"chdb_version":                     &l.version,
		"chdb_set_signal_handlers_enabled": &l.signals,
		"chdb_connect":                     &l.connect,
		"chdb_close_conn":                  &l.closeConn,
		"chdb_query_n":                     &l.query,
		"chdb_stream_query_n":              &l.stream,
		"chdb_stream_fetch_result":         &l.fetch,
		"chdb_stream_cancel_query":         &l.cancelStream,
		"chdb_destroy_query_result":        &l.destroyResult,
		"chdb_stream_insert_n":             &l.insert,
		"chdb_stream_append":               &l.appendInsert,
		"chdb_stream_done":                 &l.doneInsert,
		"chdb_stream_cancel_insert":        &l.cancelInsert,
		"chdb_stream_insert_error":         &l.insertError,
		"chdb_destroy_insert_stream":       &l.destroyInsert,
		"chdb_result_buffer":               &l.buffer,
		"chdb_result_length":               &l.length,
		"chdb_result_error":                &l.resultError,
		"chdb_result_elapsed":              &l.elapsed,
		"chdb_result_rows_read":            &l.rowsRead,
		"chdb_result_bytes_read":           &l.bytesRead,
		"chdb_result_storage_rows_read":    &l.storageRows,
		"chdb_result_storage_bytes_read":   &l.storageBytes,
		"chdb_result_rows_written":         &l.rowsWritten,
		"chdb_result_bytes_written":        &l.bytesWritten,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("%s has no %s: it is not the libchdb.so of this version: %w", path, name, err)
		}
		purego.RegisterFunc(fn, symbol)
	}
	// Go's runtime owns the signals of this process.
	l.signals(0)
	return l, nil
}

var errNoConnection = errors.New("the engine refused a connection")

// open starts a connection; the first one starts the engine.
func (l *library) open(args []string) (uintptr, error) {
	texts := make([][]byte, len(args))
	argv := make([]unsafe.Pointer, len(args)+1)
	var pin runtime.Pinner
	defer pin.Unpin()
	for i, a := range args {
		texts[i] = append([]byte(a), 0)
		pin.Pin(&texts[i][0])
		argv[i] = unsafe.Pointer(&texts[i][0])
	}
	p := l.connect(int32(len(args)), unsafe.Pointer(&argv[0]))
	runtime.KeepAlive(texts)
	if p == 0 {
		return 0, errNoConnection
	}
	return p, nil
}

// deref follows the pointer to a connection that chdb_connect returns.
func deref(p uintptr) uintptr { return **(**uintptr)(unsafe.Pointer(&p)) }

// cBytes is a view of engine memory, valid until its owner is destroyed.
func cBytes(p, n uintptr) []byte {
	if p == 0 || n == 0 {
		return nil
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n)
}

// cString copies a C string.
func cString(p uintptr) string {
	if p == 0 {
		return ""
	}
	start := *(**byte)(unsafe.Pointer(&p))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(start), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(start, n))
}

func data(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
