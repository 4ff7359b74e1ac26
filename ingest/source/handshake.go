package source

import (
	"bytes"
	"crypto/subtle"
)

// maxChallenge bounds what is echoed to a stranger.
const maxChallenge = 1 << 10

// SlackChallenge returns the challenge of a verified url_verification, which Slack sends when
// somebody enters the URL, and says whether r is one.
func (s *Source) SlackChallenge(r *Request) (string, bool) {
	if s.spec.Scheme != SchemeSlack || !bytes.Contains(r.Body, []byte("url_verification")) {
		return "", false
	}
	values, err := s.slack.Find(r.Body)
	if err != nil {
		return "", false // not a handshake; the mapping says what is wrong
	}
	kind, _ := values[0].Text()
	challenge, ok := values[1].Text()
	return challenge, ok && kind == "url_verification" && echoable(challenge)
}

// Query is what a GET challenge looks at: the value of a query parameter and how many there are.
type Query func(name string) (value string, count int)

// Challenge returns what a GET challenge wants to see again: of hub.challenge (WebSub, Meta),
// challenge (Dropbox, Nylas and others). The error is nil, a *Refusal or a *event.FieldError.
// Echoing proves nothing about us and gives nothing away; what the provider posts afterwards
// is believed by its signature alone.
func (s *Source) Challenge(q Query) (string, error) {
	name := "hub.challenge"
	challenge, count := q(name)
	if count == 0 {
		name = "challenge"
		challenge, count = q(name)
	}
	if count == 0 {
		return "", missing("challenge", "a GET must carry a challenge as hub.challenge or challenge; webhooks are sent with POST")
	}
	if count > 1 || !echoable(challenge) {
		return "", invalid(name, "the challenge must be given once, with 1 to 1024 printable ASCII characters")
	}
	if s.token == nil {
		return challenge, nil
	}
	token, count := q("hub.verify_token")
	fits := 0
	for _, want := range s.token() {
		fits |= subtle.ConstantTimeCompare([]byte(token), []byte(want))
	}
	if fits == 0 || count != 1 {
		return "", badSignature("hub.verify_token is not that of the source")
	}
	return challenge, nil
}

// EchoableOrigin says whether v may be repeated as WebHook-Allowed-Origin.
func EchoableOrigin(v string) bool { return echoable(v) && len(v) <= 255 }

func echoable(v string) bool {
	for i := 0; i < len(v); i++ {
		if v[i] < ' ' || v[i] > '~' {
			return false
		}
	}
	return len(v) > 0 && len(v) <= maxChallenge
}
