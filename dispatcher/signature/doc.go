// Package signature signs and verifies Standard Webhooks: v1 (HMAC-SHA256) and v1a
// (Ed25519) over "id.timestamp.body". The dispatcher signs with it, receivers of ours and
// tests verify with it.
//
// It owns the text forms of keys (whsec_, whsk_, whpk_), the three header names, and the
// rules of the header's value; it does not decide which keys are valid when.
//
// Non-obvious:
//   - The value is one header line: newest key first, oldest valid last, one space between,
//     nothing before or after. The Go library reads only the first line, the Python one
//     fails on a double space, the Elixir one compares only the last token.
//   - The key is the decoded bytes, never the text. Short keys are refused here because
//     the official Go library accepts even an empty one.
//   - A full stop in the id would make the signed content ambiguous ("a.1"+"2" and
//     "a"+"1.2" sign alike); hookline's ids never hold one.
//   - Sign immediately before the write: time spent in a queue after signing eats the
//     receiver's 300 s window.
//   - Errors never repeat a secret.
package signature
