// Package brokertest gives a test a Kafka broker and topics of its own.
//
// Owns: the life of one in-process kfake cluster per test, or the topics and groups under one
// prefix of a shared real cluster. Reads: HOOKLINE_TEST_BROKERS, a comma-separated list of
// seeds; empty (the default) means kfake in memory. Promises: what Start returns is ready to
// be used, is private to the test, and is gone when the test has ended. The same test body
// runs on both; a test that must steer the broker (injected errors, disconnects) asks Fake
// and does its fake-only part when that is not nil.
//
// It does not give the broker of "hookline dev", which keeps its data on disk: that is
// deploy/local.
//
// Non-obvious
//   - One broker, not kfake's three: with three, half of what a test sees is the client
//     looking for the leader.
//   - On a real cluster the prefix is what isolates tests. Name topics with Topic.Name(Prefix),
//     groups with event.GroupName or Prefix + name, and transactional ids under Prefix too.
//   - kfake's data lives in memory and is lost with the test; nothing here survives a restart.
package brokertest
