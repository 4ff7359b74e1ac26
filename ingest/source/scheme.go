package source

import (
	"strings"
)

// claim is what a request says about its signature, before anything of it is believed.
type claim struct {
	parts     []string // signed, one behind the other
	tokens    []string // signatures in their encoded form, without prefix; any may match
	edTokens  []string // the same of ed25519
	timestamp string   // as it was signed, "" = none
}

// maxTokens bounds the signatures of one request: providers send one per valid secret.
const maxTokens = 16

// claimOf reads the claim of r in the way of the scheme.
func (s *Source) claimOf(r *Request) (claim, error) {
	switch s.spec.Scheme {
	case SchemeStandardWebhooks:
		return claimStandard(r)
	case SchemeGitHub:
		return claimPrefixed(r, "X-Hub-Signature-256", "sha256=")
	case SchemeStripe:
		return claimStripe(r)
	case SchemeSlack:
		return claimSlack(r)
	case SchemeShopify:
		return claimPrefixed(r, "X-Shopify-Hmac-Sha256", "")
	}
	return claimHMAC(r, &s.spec.HMAC)
}

// claimStandard takes the three headers under the names of the standard, or all under those
// of Svix, where the standard came from.
func claimStandard(r *Request) (claim, error) {
	family := "webhook"
	if _, n := r.Header("webhook-id"); n == 0 {
		if _, n := r.Header("svix-id"); n > 0 {
			family = "svix"
		}
	}
	id, err := r.one(family + "-id")
	if err != nil {
		return claim{}, err
	}
	if strings.Contains(id, ".") {
		return claim{}, badSignature("the header " + family + "-id holds a full stop: what is signed could be read in two ways")
	}
	at, err := r.one(family + "-timestamp")
	if err != nil {
		return claim{}, err
	}
	signatures, err := r.one(family + "-signature")
	if err != nil {
		return claim{}, err
	}
	c := claim{parts: []string{id, ".", at, ".", r.body()}, timestamp: at}
	c.tokens, c.edTokens = standardTokens(signatures)
	return c, nil
}

// standardTokens splits "v1,BASE64 v1a,BASE64 ...". Other versions are passed over.
func standardTokens(list string) (tokens, edTokens []string) {
	for token := range strings.SplitSeq(list, " ") {
		version, signature, _ := strings.Cut(token, ",")
		switch {
		case version == "v1" && len(tokens) < maxTokens:
			tokens = append(tokens, signature)
		case version == "v1a" && len(edTokens) < maxTokens:
			edTokens = append(edTokens, signature)
		}
	}
	return tokens, edTokens
}

// claimPrefixed is a signature over the body alone.
func claimPrefixed(r *Request, header, prefix string) (claim, error) {
	v, err := r.one(header)
	if err != nil {
		return claim{}, err
	}
	token, ok := strings.CutPrefix(v, prefix)
	if !ok {
		return claim{}, badSignature("the header " + header + " does not begin with " + prefix)
	}
	return claim{parts: []string{r.body()}, tokens: []string{token}}, nil
}

func claimStripe(r *Request) (claim, error) {
	v, err := r.one("Stripe-Signature")
	if err != nil {
		return claim{}, err
	}
	at, tokens, ok := stripeItems(v)
	if !ok {
		return claim{}, badSignature("the header Stripe-Signature must hold one t= and at least one v1=")
	}
	return claim{parts: []string{at, ".", r.body()}, tokens: tokens, timestamp: at}, nil
}

// stripeItems splits "t=TIME,v1=HEX,v1=HEX,v0=HEX". Of two times nobody could say which is
// signed. Only v1 counts: v0 is a test scheme.
func stripeItems(list string) (at string, tokens []string, ok bool) {
	times := 0
	for item := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		switch {
		case name == "t":
			at, times = value, times+1
		case name == "v1" && len(tokens) < maxTokens:
			tokens = append(tokens, value)
		}
	}
	return at, tokens, times == 1 && at != "" && len(tokens) > 0
}

func claimSlack(r *Request) (claim, error) {
	at, err := r.one("X-Slack-Request-Timestamp")
	if err != nil {
		return claim{}, err
	}
	c, err := claimPrefixed(r, "X-Slack-Signature", "v0=")
	if err != nil {
		return claim{}, err
	}
	c.parts, c.timestamp = []string{"v0:", at, ":", r.body()}, at
	return c, nil
}

func claimHMAC(r *Request, h *HMAC) (claim, error) {
	v, err := r.one(h.Header)
	if err != nil {
		return claim{}, err
	}
	var c claim
	if t := h.Timestamp; t != nil {
		switch t.kind {
		case selectHeader:
			c.timestamp, err = r.one(t.name)
		case selectParam:
			c.timestamp, err = param(v, t.name, h.Header)
		}
		if err != nil {
			return claim{}, err
		}
	}
	if c.tokens = hmacTokens(v, h.Prefix); len(c.tokens) == 0 {
		return claim{}, badSignature("the header " + h.Header + " holds no signature that begins with " + h.Prefix)
	}
	c.parts, err = h.Signed.parts(r, c.timestamp)
	return c, err
}

// listItems splits a signature header that holds several items.
func listItems(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
}

// hmacTokens are the items of list that begin with prefix, without it. The list as a whole
// is tried too: a prefix may hold a blank ("HMAC-SHA256 abc").
func hmacTokens(list, prefix string) []string {
	var out []string
	if token, ok := strings.CutPrefix(list, prefix); ok {
		out = append(out, token)
	}
	for _, item := range listItems(list) {
		if token, ok := strings.CutPrefix(item, prefix); ok && len(out) < maxTokens && item != list {
			out = append(out, token)
		}
	}
	return out
}

// param returns the only item NAME=VALUE of list.
func param(list, name, header string) (string, error) {
	value, count := "", 0
	for _, item := range listItems(list) {
		if v, ok := strings.CutPrefix(item, name+"="); ok {
			value, count = v, count+1
		}
	}
	if count != 1 || value == "" {
		return "", badSignature("the header " + header + " must hold one " + name + "=")
	}
	return value, nil
}
