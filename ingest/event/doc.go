// Package event is the contract of the events topic: what one record looks like, how its
// ids are made, which partition it belongs to. Everything downstream, and every Kafka
// producer that publishes without HTTP, meets ingest here and nowhere else.
//
// # Record
//
// CloudEvents Kafka binding, binary mode. The body is never wrapped, parsed again or
// rewritten; it is the value.
//
//	key      message id                       1..128 visible ASCII; decides the partition
//	value    body, byte for byte              JSON by contract, at least 1 byte
//	headers, in the order in which Headers writes them (Decode takes any order)
//	  ce_specversion   "1.0"                  absent: 1.0
//	  ce_id            Webhook-Id             [A-Za-z0-9_-]{1,128}; absent: evt_p... from the position
//	  ce_type          event type             dot-separated [A-Za-z0-9_-]+, at most 128; REQUIRED
//	  ce_source        CloudEvents source     with tenant and id the key of window A
//	  ce_subject       message id again       for readers; Decode trusts the key alone
//	  ce_time          producer's time        RFC 3339, UTC; absent: none given
//	  content-type     of the body            absent: application/json
//	  traceparent      W3C trace context      dropped when malformed
//	  hl_tenant        owner                  [A-Za-z0-9_-]{1,64}; absent: ""
//	  hl_source        provider's name        absent: the publish API if ingest made the id, else "kafka"
//	                                          "hookline" in feedback events, whose ce_source is "/hookline"
//	  hl_schema        contract version       absent: 1
//	  hl_accepted_ms   Unix ms, accepted      absent or later than the record: record timestamp
//	  hl_sequence      producer's sequence    0..2^53-1; absent: none
//	  hl_forwarded     topic id:from:offset:to; written by a dispatcher that moved the record
//	                   out of the wrong partition, ignored when malformed
//
// Evolution: headers are only added, and a reader ignores names that it does not know. No
// other hl_ header of a Kafka producer is read: a record in events cannot pretend to be a
// retry.
//
// # The Kafka door
//
// Whoever may write to the topic is trusted: ids, tenant and origin are what the record says.
// A record without hl_tenant belongs to the tenant of a deployment that has one; with several
// it is poison (the dispatcher decides, it is the reader that knows). A record whose key
// belongs to another partition is forwarded there (Place), with the id that its first place
// gave it. A record without a key has no message id, whatever ce_subject says: two producers
// that put the subject there would otherwise scatter one message id over the partitions.
//
// # Ids
//
//	evt_u + ULID             random; the publish carried no idempotency key
//	evt_k + 32 characters    SHA-256 of (tenant, type, message id, idempotency key), or of
//	                         (tenant, type, message id, source, id) of a CloudEvent
//	evt_p + 32 characters    SHA-256 of (topic, partition, offset, timestamp): a Kafka
//	                         producer gave no ce_id
//	anything else            a Kafka producer's own id
//
// The name of the topic and not its id is in evt_p, so that Decode needs nothing but the
// record; the timestamp tells a topic from its predecessor.
//
// Only evt_u ids skip the dispatcher's idempotency window: ingest never makes one twice.
//
// # Body
//
// ParseBody finds the few fields that matter in one pass, without building a tree and
// without changing anything. It refuses what two JSON readers could read differently. Array
// does the same for each element of a JSON array, ParseCloudEvent for the JSON form of a
// CloudEvent and CloudHeaders for one whose attributes are HTTP headers; of the extensions,
// sequence, schemaversion and traceparent are understood. The oracle package reads the same
// bodies in another way, for tests.
//
// # Does not
//
// Talk to Kafka or HTTP, know endpoints, retries or sequences of ours.
//
// # Non-obvious
//
//   - Headers and Decode copy no strings. An Event decoded from a record lives as long as the
//     record; one whose headers were appended must not have its strings' memory reused.
//     Ingest copies the body out of the request first and lets everything alias that copy.
//   - The partition count of events is part of its identity: Partition of another count moves
//     message ids, and their order is gone. The topic is never grown in place.
//   - Names are compared by Unicode simple folding: the name with U+017F (long s) in it is
//     "message_id" to Go's own decoder too.
//   - A header that occurs twice: the last one counts, as for Java's lastHeader.
package event
