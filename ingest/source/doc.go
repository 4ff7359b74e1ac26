// Package source takes the webhooks of third-party providers: it says whether a request was
// signed by the provider, whether it was taken before, and what event of ours it is. It is
// pure but for the memory of replays; the room reads the request and publishes the event.
//
// # A request, in order
//
//	scheme.go    claimOf   headers to what was signed, signatures and time; nothing is believed
//	verify.go    Verify    every signature against every secret, then the time: 401
//	handshake.go           Slack's url_verification, GET challenges: answered, not published
//	mapping.go   Map       required fields, then type, message id and id of the event: 400
//	replay.go    Memory    the same request again: answered as the first was, not published
//
//	spec.go      what the settings say; parse.go, section.go read them, preset.go their defaults
//	selector.go  header:NAME, json:a.b.c; template.go what the scheme hmac signs
//	key.go       secrets to keys; address.go who is at the other end
//
// # Settings
//
//	sources:
//	  stripe-eu:                        # POST /v1/sources/stripe-eu
//	    tenant: dev
//	    scheme: stripe                  # standard-webhooks, github, stripe, slack, shopify, hmac
//	    secrets: ["env:STRIPE_EU"]      # all are valid; file: and exec: are followed, one a line
//	    tolerance: 5m                   # of the signed time, both ways; 1s to 24h
//	    event_type: json:type           # header:NAME, json:a.b.c, form:NAME, const:VALUE; of a
//	                                    # list all are joined with ".", one with "?" may be missing
//	    message_id: json:data.object.id # of a list the first that is there
//	    event_id: json:id               # likewise; or derive_id: [json:type, json:created]
//	    require: [{path: data.object.id, type: string, max_len: 255}]
//	    allow_cidrs: []                 # of the peer; of the client behind trusted_proxies
//	    trusted_proxies: []             # CIDRs whose X-Forwarded-For is believed; nobody's by default
//	    success: {status: 200, body: ""}  # and content_type
//	    rate: 0                         # signed requests a second, above it 429; and burst
//	    verify_token: "file:token"      # asked of a GET challenge as hub.verify_token
//	    hmac: {header: X-Signature, prefix: "sha256=", encoding: hex, algorithm: sha256,
//	           signed: "{timestamp}.{body}", timestamp: header:X-Time, secret_encoding: text}
//
// # Presets
//
// What a preset maps can be replaced field by field.
//
//	standard-webhooks  webhook-id, -timestamp, -signature or the same as svix-; secrets whsec_ and
//	                   base64, or whpk_ (ed25519). type json:type, message json:data.id or the
//	                   webhook-id, id webhook-id
//	github             X-Hub-Signature-256 over the body; no time is signed. type X-GitHub-Event
//	                   and action ("pull_request.opened", "push"), message json:repository.id,
//	                   organization, installation, else the delivery; id X-GitHub-Delivery. The
//	                   webhook must send application/json. ping is an event like others
//	stripe             Stripe-Signature t=,v1=; the secret is the whole text with whsec_. type
//	                   json:type, message json:data.object.id or json:id, id json:id
//	slack              X-Slack-Signature v0= over "v0:TIME:BODY". type json:event.type, message
//	                   the channel, the user or the team, id json:event_id. For commands and
//	                   interactions, which are forms, map with form:NAME
//	shopify            X-Shopify-Hmac-Sha256, base64 over the body; no time is signed. type
//	                   X-Shopify-Topic ("orders/create" is orders.create), message json:id or the
//	                   webhook id, id X-Shopify-Webhook-Id
//	hmac               everything is set; in signed also {method}, {header:NAME}, "{{" for a
//	                   brace. timestamp: header:NAME, param:NAME for an item NAME= of the
//	                   signature header, json:PATH for a member of the body; seconds, milliseconds
//	                   or RFC 3339. The header may hold several signatures, between "," ";" or
//	                   blanks
//
// # Event
//
// The type is the provider's, with "/" and ":" turned into "." and any other character beyond
// [A-Za-z0-9_-] into "_". The id is derived from tenant, type, message id, source and the
// provider's id (or the values of derive_id), so that a repeated request gives an equal id on
// every node and the dispatcher drops the second. Body and content type are as sent.
//
// # Replays
//
// A request is remembered for twice the tolerance and five seconds, by what was signed and by
// its event id: a time from the future may be as old as that when it goes stale. The memory is
// of one process and of 262,144 requests; beyond it, and for schemes that sign no time, the
// event id is the same again and the dispatcher's window knows it.
//
// # Does not
//
// Speak HTTP, read files, produce, limit rates.
//
// # Non-obvious
//
//   - Encoded signatures are compared, never decoded: nothing of a stranger is parsed before
//     its signature, and a signature has one form only, so that a changed bit is a wrong one.
//   - The signature is checked before the time. Without a secret nobody learns our clock.
//   - Headers are not signed by GitHub and Shopify, but type and id stand in them. Who has
//     captured a request can send its body under another id. Keep TLS up to this server.
//   - A message id with a full stop in webhook-id would let one signature stand for two
//     different requests, so it is refused.
//   - A secret that does not fit its scheme is refused by whoever reads secrets; here it only
//     never matches.
package source
