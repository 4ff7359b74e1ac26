// Package enginetest gives tests an embedded ClickHouse engine on a data directory of their own.
//
// The engine's child process is the test binary itself, started again, so a package that uses it has
//
//	func TestMain(m *testing.M) { enginetest.Main(m) }
//
// The library comes from HOOKLINE_LIBCHDB, or from .tools/libchdb.so of a directory above the test.
// Without it a test fails and says what to run; it never passes for want of the engine.
//
// Kill, Pause, Resume and Restart put the engine into the states that its clients must survive:
// gone (connections refused), silent (accepted, never answered), back with its data. Nothing here
// restarts it by itself; engine.Engine.Run, which does, is tested where it lives.
package enginetest
