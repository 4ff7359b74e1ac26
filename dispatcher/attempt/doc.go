// Package attempt owns the attempts topic: one record per attempt, park or routing verdict,
// written by the dispatcher and read by the analytics sink (a row of hookline.attempts) and
// by the next owner of a lane (a takeover mark).
//
// A record's key is its event id and its partition is the event's partition modulo the
// partition count (PartitionFor), so that all rows of a lane lie in one partition and a new
// owner reads one. The value alone is complete. No payload, URL, secret or free text is
// part of it; strings are ids and closed vocabularies.
//
// File map: record.go the row; names.go the texts of its enums; codec.go the bytes;
// errclass.go the vocabulary of error classes; topic.go topic and partition.
//
// Evolution: fields are added at the end of the value. A reader that knows fewer ignores
// the rest; a reader that knows more takes what is missing as zero. Only a layout that old
// readers would misread gets a new version byte. testdata holds golden bytes, which are
// added to and never edited.
//
// Non-obvious:
//   - A row with a Position promises that the retry copy or dead letter is durable. Results
//     of a lane that was revoked or lost carry none (SourceNone).
//   - Strings of a decoded Record alias the input; clone what outlives the Kafka record.
package attempt
