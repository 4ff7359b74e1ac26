// Package endpoint is the contract of the compacted topic of endpoints: what one
// configured destination is, how it is stored, which events it wants, and which URLs it
// may have.
//
// It owns the topic "endpoints" (one partition, compacted): key = endpoint id, value = the
// JSON of a stored record, no value (a tombstone) = the endpoint was deleted. The admin
// API writes it through dispatcher/table, every dispatcher reads it whole.
//
//	{"v":1,
//	 "endpoint":{...the form of CONTRACT section 4, without secret and headers...},
//	 "keys":[{"sealed":"BASE64","key_id":"HEX","created_at":"...","not_after":"..."}],
//	 "headers":{"sealed":"BASE64","key_id":"HEX"},
//	 "created_at":"...","updated_at":"..."}
//
// Secrets and the customer's own headers (they carry tokens) are sealed with AES-256-GCM
// under HOOKLINE_SECRET_KEY; the associated data names the use, the tenant and the endpoint,
// so that a sealed secret cannot be moved to another endpoint.
//
// Files: endpoint.go the form, defaults.go what a missing field means, duration.go, and
// validate.go, headers.go, urlpolicy.go, hostname.go what is refused and why; pattern.go
// which event types a filter names; keys.go signing keys and their rotation; keyring.go and
// stored.go the sealed form; registry.go and snapshot.go the view that the hot path asks.
//
// Imports: dispatcher/signature for the form of a key, ingest/event for the form of a topic.
// What it does not do: it neither reads nor writes Kafka (dispatcher/table does), it does
// not resolve names (the guard of the dispatcher judges addresses at dial), and it does not
// sign.
//
// Non-obvious:
//   - A disabled endpoint still matches: its deliveries park, they are not lost.
//   - A record that cannot be opened (wrong key, newer version) keeps its endpoint in the
//     view with Fault set. Dropping it would turn its events into "unrouted".
//   - Match may be called with an event type that aliases a Kafka record: the cache clones it.
//   - "hookline.*" patterns must spell the first segment: "**" and "*.endpoint.disabled" do
//     not bring feedback events.
//   - JSON null or a missing list of events means all; an empty list is refused, since it
//     could be read either way.
package endpoint
