package source

import (
	"strings"
	"testing"
	"time"
)

// exchange is one request as its provider documents it, with the signature that stands there
// or that Python's hmac gives for it.
type exchange struct {
	settings string
	request  *Request
	at       int64
	event    string // type and message id, "" = the documented body is no event
}

const (
	slackForm = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"

	stripeBody  = `{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","api_version":"2019-02-19","created":1686089970,"data":{"object":{"id":"seti_1NG8Du2eZvKYlo2C9XMqbR0x","object":"setup_intent","created":1686089970,"status":"requires_confirmation"}},"livemode":false,"pending_webhooks":0,"request":{"id":null,"idempotency_key":null},"type":"setup_intent.created"}`
	shopifyBody = `{"id":820982911946154508,"email":"jon@example.com","closed_at":null,"created_at":"2021-12-31T19:00:00-05:00","test":true,"total_price":"398.00"}`
	githubPush  = `{"action":"opened","number":2,"repository":{"id":1296269,"full_name":"octocat/Hello-World"}}`
	slackEvent  = `{"token":"XXYYZZ","team_id":"T123ABC456","api_app_id":"A123ABC456","event":{"type":"app_mention","user":"U061F7AUR","text":"<@U0LAN0Z89> is it everything a river should be?","ts":"1515449522.000016","channel":"C123ABC456","event_ts":"1515449522000016"},"type":"event_callback","event_id":"Ev123ABC456","event_time":1515449522}`
)

func exchanges() map[string]exchange {
	return map[string]exchange{
		"github, from its documentation": {settings: "scheme: github\nsecrets: [\"It's a Secret to Everybody\"]",
			request: post("Hello, World!", "X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")},
		"github": {settings: "scheme: github\nsecrets: [gh]", event: "pull_request.opened 1296269",
			request: post(githubPush, "X-GitHub-Event", "pull_request", "X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-GitHub-Hook-ID", "292430182",
				"X-Hub-Signature-256", "sha256=1bb6440a8e501fa96a0adf525859e9c618939c755d136f784c09adb75e534964", "X-Hub-Signature", "sha1=7d38cdd689735b008b3c702edd92eea23791c5f6")},
		"slack, from its documentation": {settings: "scheme: slack\nsecrets: [8f742231b10e8888abcd99yyyzzz85a5]\nevent_type: form:command\nmessage_id: form:channel_id\nderive_id: [form:trigger_id]", at: 1531420618,
			event: "webhook-collect G8PSS9T3V",
			request: post(slackForm, "X-Slack-Request-Timestamp", "1531420618", "Content-Type", "application/x-www-form-urlencoded",
				"X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503")},
		"slack": {settings: "scheme: slack\nsecrets: [8f742231b10e8888abcd99yyyzzz85a5]", at: 1531420618, event: "app_mention C123ABC456",
			request: post(slackEvent, "X-Slack-Request-Timestamp", "1531420618", "X-Slack-Signature", "v0=d1bc4a6d8863856cbf319e814d30979202824d74e27e631d5ae7c4d53c6f83e8")},
		"stripe": {settings: "scheme: stripe\nsecrets: [whsec_old, whsec_test_secret]", at: 1686089971, event: "setup_intent.created seti_1NG8Du2eZvKYlo2C9XMqbR0x",
			request: post(stripeBody, "Stripe-Signature", "t=1686089970,v1=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39,v1=79f767369a6e4231ce53f1601a9d52a8b3dbfd0ea6b43d7047002e05bf16195e,v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39")},
		"shopify": {settings: "scheme: shopify\nsecrets: [hush]", event: "orders.create 820982911946154508",
			request: post(shopifyBody, "X-Shopify-Topic", "orders/create", "X-Shopify-Webhook-Id", "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", "X-Shopify-Shop-Domain", "shop.myshopify.com",
				"X-Shopify-Triggered-At", "2023-03-29T18:00:27.877041743Z", "X-Shopify-Hmac-Sha256", "nL+WGzzy6kEoVJ9UVvkbuiZuVDGbvcfkogbBFLhwRg4=")},
		"standard webhooks, from its documentation": {settings: "scheme: standard-webhooks\nsecrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]", at: 1614265330,
			request: post(`{"test": 2432232314}`, "webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp", "1614265330",
				"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")},
		"standard webhooks of svix": {settings: "scheme: standard-webhooks\nsecrets: [MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]\nevent_type: const:test.made", at: 1614265330,
			event: "test.made msg_p5jXN8AQM9LWM0D4loKWxJek",
			request: post(`{"test": 2432232314}`, "svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "svix-timestamp", "1614265330",
				"svix-signature", "v1,bm9ldHUK v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,MzJsNDk4MzI0K2VvdSMjMTEjQEBAQDEyMzMzMzEyMwo=")},
		"standard webhooks, ed25519": {settings: "scheme: standard-webhooks\nsecrets: [whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=]\nevent_type: json:event\nmessage_id: json:message_id", at: 1784452525,
			event: "message.delivered 01HZY8Q3M6",
			request: post(vectorBody, "webhook-id", "evt_01HZY8Q3M6_0001", "webhook-timestamp", "1784452525",
				"webhook-signature", "v1a,tGT+WizydZObVw6SzG7/913cuIQ/Mjgt3y93PS2LdkNajpMoKbsQvUaopyAH4U0Lj1O4zwH4GoNKEemsAZXSCA==")},
		"paddle, by the general scheme": {settings: `scheme: hmac
secrets: [pdl_ntfset_secret]
event_type: json:event_type
message_id: json:data.id
event_id: json:event_id
hmac: {header: Paddle-Signature, prefix: "h1=", timestamp: "param:ts", signed: "{timestamp}:{body}"}`, at: 1671552777, event: "subscription.created sub_1",
			request: post(`{"event_id":"evt_1","event_type":"subscription.created","data":{"id":"sub_1"}}`, "Paddle-Signature", "ts=1671552777;h1=4b66ba7199ef7b30aa7e191aceff56d7903a47a1aa8786eb2b90e3e058e847a1")},
	}
}

const vectorBody = `{"event":"message.delivered","message_id":"01HZY8Q3M6","status":"delivered","occurred_at":"2026-07-19T09:15:25Z"}`

func TestRecordedExchanges(t *testing.T) {
	t.Parallel()
	for name, x := range exchanges() {
		s := makeSource(t, x.settings)
		now := time.Now()
		if x.at != 0 {
			now = time.Unix(x.at, 0)
		}
		if code := verify(t, s, x.request, now); code != "" {
			t.Errorf("%s: %s", name, code)
			continue
		}
		changed := *x.request
		changed.Body = append([]byte(nil), x.request.Body...)
		changed.Body[len(changed.Body)/2] ^= 1
		if code := verify(t, s, &changed, now); code != CodeBadSignature {
			t.Errorf("%s with another body: %q", name, code)
		}
		if x.event == "" {
			continue
		}
		got, first := mapped(t, s, x.request)
		if got != x.event {
			t.Errorf("%s is the event %s, want %s", name, got, x.event)
		}
		if _, again := mapped(t, makeSource(t, x.settings), x.request); again.ID != first.ID {
			t.Errorf("%s has the id %s and then %s", name, first.ID, again.ID)
		}
	}
}

func TestTimestampIsToldFromSignature(t *testing.T) {
	t.Parallel()
	for name, x := range exchanges() {
		if x.at == 0 {
			continue
		}
		s := makeSource(t, x.settings+"\ntolerance: 300s")
		signed := x.at
		if name == "stripe" {
			signed-- // the exchange is looked at a second after it was signed
		}
		for age, want := range map[int64]string{0: "", 299: "", 300: "", 301: CodeStaleTimestamp, -300: "", -301: CodeStaleTimestamp, 1e9: CodeStaleTimestamp, -1e9: CodeStaleTimestamp} {
			if got := verify(t, s, x.request, time.Unix(signed+age, 0)); got != want {
				t.Errorf("%s after %d s: %q, want %q", name, age, got, want)
			}
		}
		other := *x.request
		other.Body = []byte(strings.ToUpper(string(x.request.Body)))
		if got := verify(t, s, &other, time.Unix(signed+1e9, 0)); got != CodeBadSignature {
			t.Errorf("%s, wrong in both: %q", name, got)
		}
	}
}
